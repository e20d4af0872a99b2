"""What the changes to data loading share: loaders, fetchers and datasets, from inside."""
