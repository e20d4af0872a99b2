"""The last readings of a metric, and what was usual before them."""

from __future__ import annotations

from collections import deque
from typing import Final

from stepscope.stats.quantiles import median
from stepscope.stats.thinned import Thinned

__all__ = ["Recent", "Usual"]

_MOST: Final = 600  # readings in a window: a minute of ten a second
_REFRESH: Final = 8  # readings between two looks at what is usual


class Recent:
    """Readings of the last `window_s` seconds, by their own times.

    >>> recent = Recent(window_s=10.0)
    >>> for second in range(20):
    ...     gone = recent.update(second * 1_000_000_000, float(second))
    >>> recent.mean, recent.covered_s
    (14.5, 9.0)
    """

    def __init__(self, window_s: float) -> None:
        self._window_ns = window_s * 1e9
        self._readings: deque[tuple[int, float]] = deque()
        self._sum = 0.0

    def update(self, time_ns: int, value: float) -> list[float]:
        """Gives the readings that are no longer recent."""
        self._readings.append((time_ns, value))
        self._sum += value
        gone = []
        while self._is_old(time_ns):
            gone.append(self._readings.popleft()[1])
        if gone:
            self._sum = sum(value for _, value in self._readings)  # no error adds up
        return gone

    @property
    def count(self) -> int:
        return len(self._readings)

    @property
    def mean(self) -> float | None:
        return self._sum / len(self._readings) if self._readings else None

    @property
    def covered_s(self) -> float:
        """From the first of them to the last."""
        return (self._readings[-1][0] - self._readings[0][0]) / 1e9 if self._readings else 0.0

    def _is_old(self, now_ns: int) -> bool:
        return now_ns - self._readings[0][0] >= self._window_ns or len(self._readings) > _MOST


class Usual:
    """The middle of what a metric was before its recent readings. Stands still while `frozen`."""

    def __init__(self, window_s: float, fewest: int = 20) -> None:
        self.recent = Recent(window_s)
        self._fewest = fewest
        self._before = Thinned()
        self._count = 0
        self._unread = 0  # since the last look
        self.value: float | None = None  # None: too few readings to tell

    def update(self, time_ns: int, value: float, *, frozen: bool = False) -> None:
        gone = self.recent.update(time_ns, value)
        if frozen:
            return
        for one in gone:
            self._count += 1
            self._before.update(float(self._count), one)
        self._unread += len(gone)
        if self._count >= self._fewest and self._unread >= (_REFRESH if self.value else 1):
            self._unread = 0
            self.value = median(point.middle for point in self._before.points)
