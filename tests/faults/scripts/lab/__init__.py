"""A small package such as a team keeps: models, data and helpers that its scripts share."""
