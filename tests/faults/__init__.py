"""Training scripts with known faults, and what stepscope says about them."""
