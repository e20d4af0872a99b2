"""Settings that every run of the team shares."""

import torch


def reproducible(double):
    """Same seed, one thread and, for comparisons with the old code, double precision."""
    torch.manual_seed(7)
    torch.set_num_threads(1)
    if double:
        torch.set_default_dtype(torch.float64)
