"""Percentiles of any number of values, to within a stated error, in bounded memory."""

from __future__ import annotations

import math
from collections import defaultdict

__all__ = ["ERROR", "Sketch"]

ERROR = 0.01  # of a value, that a percentile may be off by
_STEP = math.log((1 + ERROR) / (1 - ERROR))
MOST = 1024  # classes of size on each side of 0: values that differ by a factor of 700 million
_SMALLEST = 1e-300


class Sketch:
    """Counts values by size, in classes that are 2 % wide (DDSketch).

    Where there would be too many classes, the smallest sizes are counted as one: high percentiles
    stay right.

    >>> sketch = Sketch()
    >>> for value in range(1, 1001):
    ...     sketch.update(value)
    >>> abs(sketch.quantile(0.95) / 950 - 1) <= 0.01
    True
    """

    def __init__(self) -> None:
        self.count = 0
        self._zeros = 0
        self._above: dict[int, int] = defaultdict(int)
        self._below: dict[int, int] = defaultdict(int)

    def update(self, value: float) -> None:
        """Count a finite value."""
        self.count += 1
        size = abs(value)
        if size < _SMALLEST:
            self._zeros += 1
            return
        classes = self._above if value > 0 else self._below
        classes[math.ceil(math.log(size) / _STEP)] += 1
        if len(classes) > MOST:
            smallest, next_one = sorted(classes)[:2]
            classes[next_one] += classes.pop(smallest)

    def quantile(self, share: float) -> float | None:
        """The value below which a share of all values lies; None: there are none."""
        if not self.count:
            return None
        left = share * (self.count - 1)
        for size in sorted(self._below, reverse=True):
            left -= self._below[size]
            if left < 0:
                return -_middle(size)
        left -= self._zeros
        if left < 0:
            return 0.0
        last = 0.0
        for size in sorted(self._above):
            last = _middle(size)
            left -= self._above[size]
            if left < 0:
                break
        return last


def _middle(size: int) -> float:
    """The value that is nearest to all of a class, in proportion."""
    return math.exp(size * _STEP) * (1 - ERROR)
