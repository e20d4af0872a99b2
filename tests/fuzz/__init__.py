"""Damaged input for everything that stepscope reads. `make fuzz` runs it in full."""
