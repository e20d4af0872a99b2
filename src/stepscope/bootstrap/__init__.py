"""The folder that `stepscope run` puts first on PYTHONPATH; a package only to be installed."""
