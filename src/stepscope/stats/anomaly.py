"""Values of any metric, one after the other → the single ones that are odd."""

from __future__ import annotations

import math
from collections import deque

from stepscope.stats.quantiles import median

__all__ = ["AnomalyDetector"]

WINDOW = 192  # values that say what is usual
FEWEST = 32
REFRESH = 16  # values between two looks at them
LEAST_Z = 6.0  # standard deviations; below it nothing is odd
CHANCE = 1e-4  # how often a value as far off comes by itself where tails go on as they look
REMEMBERED = 16  # odd values, however long ago
AGAIN = 3  # times that much the same is odd; then it is known
ALIKE = 0.7  # of a distance: as far as that is much the same
TAIL = 0.1  # the share of values, farthest out, that the tail is measured with
IN_A_ROW = 3  # odd values after one another are a new level, not single ones
FLOOR = 0.005  # of the usual value: a metric that hardly moves makes small moves look large
_NORMAL = 1.4826  # makes the median deviation of normal noise its standard deviation
_MEAN_NORMAL = 1.2533  # does so with the mean deviation


class AnomalyDetector:
    """Tells values that are far from all that the metric did of late, its tails included.

    How far is far is measured: noise with rare, long outliers, or a metric that is higher every
    tenth time, has to be left behind by as much as its own tail leaves chance to do. What comes
    again and again, however rarely, is told a few times only.

    >>> detector = AnomalyDetector()
    >>> [z for step in range(100) if (z := detector.update(10.0 + step % 5)) is not None]
    []
    >>> round(detector.update(60.0))
    32
    """

    def __init__(self) -> None:
        self._values: deque[float] = deque(maxlen=WINDOW)
        self._count = 0
        self._row = 0  # odd values in a row
        self._odd: deque[float] = deque(maxlen=REMEMBERED)  # distances of those before
        self._middle = 0.0
        self._scale = math.inf
        self._limit = math.inf

    def update(self, value: float) -> float | None:
        """The distance from usual values in standard deviations (robust ones), if that is odd.

        A value that is not finite is infinitely far, and not kept.
        """
        if not math.isfinite(value):
            return math.inf if self._count >= FEWEST else None
        distance = value - self._middle
        away = distance / self._scale
        is_odd = abs(away) > self._limit
        self._values.append(value)
        self._count += 1
        if self._count % REFRESH == 0 and self._count >= FEWEST:
            self._measure()
        self._row = self._row + 1 if is_odd else 0
        return away if is_odd and self._row <= IN_A_ROW and self._is_new(distance) else None

    def _is_new(self, distance: float) -> bool:
        before = sum(odd / distance >= ALIKE for odd in self._odd)
        self._odd.append(distance)
        return before < AGAIN

    def _measure(self) -> None:
        middle = self._middle = median(self._values) or 0.0
        far = sorted(abs(value - middle) for value in self._values)
        usual = _NORMAL * far[len(far) // 2]
        # Where most values are the same, the median deviation is 0 and says nothing.
        mean = _MEAN_NORMAL * sum(far) / len(far)
        self._scale = max(usual, FLOOR * abs(middle), mean if not usual else 0.0) or math.inf
        self._limit = max(LEAST_Z, _tail_limit(far) / self._scale)


def _tail_limit(far: list[float]) -> float:
    """Where the tail has got so thin that a value beyond is chance in 1 of 1 / CHANCE values: the
    middle between what a tail says that falls as a power does (Hill) and as an exponential does.
    Few values cannot tell the two apart."""
    count = max(4, int(TAIL * len(far)))
    begin = far[-count - 1]
    if begin <= 0.0:
        return 0.0
    thinner = math.log(count / len(far) / CHANCE)
    index = sum(math.log(one / begin) for one in far[-count:]) / count
    excess = sum(far[-count:]) / count - begin
    return math.sqrt(begin * math.exp(index * thinner) * (begin + excess * thinner))
