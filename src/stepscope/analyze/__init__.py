"""Events → what they mean. Pure functions and folds: no clocks, no files, no torch."""
