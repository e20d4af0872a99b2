"""What stands for several figures."""

from __future__ import annotations

import math
from collections.abc import Iterable

__all__ = ["typical"]


def typical(values: Iterable[float]) -> float:
    """The geometric mean: the ratio of two of them is the mean of ratios on logarithms. Where a
    figure is 0, the plain mean.

    >>> typical([1.0, 4.0]), typical([0.0, 4.0])
    (2.0, 2.0)
    """
    known = list(values)
    if min(known) <= 0:
        return math.fsum(known) / len(known)
    return math.exp(math.fsum(map(math.log, known)) / len(known))
