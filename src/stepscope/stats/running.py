"""What one metric did over a whole run, of any length, in bounded memory."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import NamedTuple

from stepscope.stats.sketch import Sketch
from stepscope.stats.thinned import Thinned
from stepscope.stats.trend import thin, trend

__all__ = ["Running", "RunningTrend"]

FEWEST = 12  # points, below which there is no trend
LINE = 64  # points at most that a line is drawn through
SURE = 4.0  # standard errors that a slope has to be away from 0


class RunningTrend(NamedTuple):
    """slope: change a second. change: over the time watched. direction: "rising", "falling", or
    "steady" where chance could have made the slope. errors: how many standard errors it is."""

    slope: float
    change: float
    direction: str
    errors: float


class Running:
    """Count, mean, extremes, percentiles and trend of the values so far.

    Percentiles are right to within 1 % of their value (stats/sketch.py).

    >>> running = Running()
    >>> for second in range(100):
    ...     running.update(second, 50.0 + second)
    >>> running.count, running.mean, running.minimum, running.maximum, running.last
    (100, 99.5, 50.0, 149.0, 149.0)
    >>> abs(running.p50 / 99.5 - 1.0) < 0.02, running.trend.direction
    (True, 'rising')
    """

    def __init__(self) -> None:
        self.count = 0
        self.minimum: float | None = None
        self.maximum: float | None = None
        self.last: float | None = None
        self._sum = 0.0
        self._sketch = Sketch()
        self._thinned = Thinned()

    def update(self, time_s: float, value: float) -> None:
        """Take a value. What is not finite is passed by."""
        if not math.isfinite(value):
            return
        self.count += 1
        self._sum += value
        self.last = value
        self.minimum = value if self.minimum is None else min(self.minimum, value)
        self.maximum = value if self.maximum is None else max(self.maximum, value)
        self._sketch.update(value)
        self._thinned.update(time_s, value)

    @property
    def mean(self) -> float | None:
        return self._sum / self.count if self.count else None

    @property
    def p50(self) -> float | None:
        return self._sketch.quantile(0.50)

    @property
    def p95(self) -> float | None:
        return self._sketch.quantile(0.95)

    @property
    def p99(self) -> float | None:
        return self._sketch.quantile(0.99)

    @property
    def trend(self) -> RunningTrend | None:
        """Of all values so far; None: too few. A millisecond of work."""
        points = self._thinned.points
        if len(points) < FEWEST:
            return None
        xs, ys = thin([point.x for point in points], [point.middle for point in points], LINE)
        line = trend(xs, ys)
        if line is None:
            return None
        left = [y - line.intercept - line.slope * x for x, y in zip(xs, ys, strict=True)]
        change = line.slope * (xs[-1] - xs[0])
        # The error of what a line rises by, over points that lie evenly.
        error = line.spread * math.sqrt(12.0 / _independent(left))
        errors = abs(change) / error if error else (math.inf if change else 0.0)
        direction = "steady" if errors < SURE else "rising" if change > 0 else "falling"
        return RunningTrend(line.slope, change, direction, errors)


def _independent(left: list[float]) -> float:
    """How many independent values what is left of a line amounts to: where neighbours are alike,
    fewer than there are."""
    squares = sum(one * one for one in left)
    if not squares:
        return float(len(left))
    alike = min(0.9, max(0.0, sum(a * b for a, b in pairwise(left)) / squares))
    return max(2.0, len(left) * (1.0 - alike) / (1.0 + alike))
