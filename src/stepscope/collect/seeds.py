"""Random numbers of a program that is run several times to be compared."""

from __future__ import annotations

from stepscope.collect.imports import when_imported

__all__ = ["seed_everything"]


def seed_everything(seed: int = 0) -> None:
    """Two runs draw the same numbers, unless the program sets its own seeds, which come later."""
    import random

    import torch

    random.seed(seed)
    torch.manual_seed(seed)
    when_imported("numpy", lambda numpy: numpy.random.seed(seed))
