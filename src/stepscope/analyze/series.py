"""A sampled quantity over time in bounded memory."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from itertools import pairwise

__all__ = ["Series"]

POINTS = 2048
_LOOSE = 2  # samples further apart than this many times the window say nothing about it


class Series:
    """Samples in the order of time. When there are too many, neighbours in the older half become
    one, again and again: what is recent stays as it was sampled."""

    def __init__(self, join: Callable[[float, float], float], points: int = POINTS) -> None:
        self._join = join  # the later value for a counter, the larger one for a peak, …
        self._points = points
        self._times = array("q")
        self._values = array("d")

    def update(self, time_ns: int, value: float) -> None:
        if self._times and time_ns <= self._times[-1]:  # late: another thread was ahead of it
            self._values[-1] = self._join(value, self._values[-1])
            return
        self._times.append(time_ns)
        self._values.append(value)
        if len(self._times) > self._points:
            self._thin()

    def _thin(self) -> None:
        """The first one is kept alone: a counter's start is where it is measured from."""
        times, values = self._times, self._values
        half = len(times) // 4 * 2
        pairs = range(1, half, 2)
        self._times = array("q", [times[0], *(times[at + 1] for at in pairs)]) + times[half + 1 :]
        joined = (self._join(values[at], values[at + 1]) for at in pairs)
        self._values = array("d", [values[0], *joined]) + values[half + 1 :]

    @property
    def last_ns(self) -> int:
        """When it was last sampled; 0: never."""
        return self._times[-1] if self._times else 0

    def points(self, start_ns: int, end_ns: int) -> list[tuple[int, float]]:
        """The samples between two moments, with their times."""
        first, behind = bisect_left(self._times, start_ns), bisect_right(self._times, end_ns)
        times, values = self._times[first:behind], self._values[first:behind]
        return list(zip(times, values, strict=True))

    def most(self, start_ns: int, end_ns: int) -> float | None:
        """The largest from the one moment to the first sample at or after the other: where a sample
        stands for the time since the one before it."""
        first, last = bisect_right(self._times, start_ns), bisect_left(self._times, end_ns)
        return max(self._values[first : last + 1], default=None)

    def overlaps(self, start_ns: int, end_ns: int) -> bool:
        """Whether it was sampled before the second moment and after the first."""
        return bool(self._times) and self._times[-1] >= start_ns and self._times[0] <= end_ns

    def covers(self, time_ns: int) -> bool:
        """Whether it was sampled before and after a moment."""
        return self.overlaps(time_ns, time_ns)

    def growth(self, start_ns: int, end_ns: int, from_zero: bool) -> float | None:
        """How much a counter grew between two moments; None: it was not sampled closely enough.

        from_zero: it began to count when it was first seen, if that was after `start_ns`.
        """
        if not self.overlaps(start_ns, end_ns):
            return None
        if self.is_sparse(start_ns, end_ns):
            return None
        born_inside = self._times[0] > start_ns
        if len(self._times) == 1 and not (born_inside and from_zero):
            return None
        before = 0.0 if born_inside and from_zero else self.at(start_ns)
        return max(0.0, self.at(end_ns) - before)

    def sampled(self, start_ns: int, end_ns: int) -> tuple[int, int]:
        """From when to when it was sampled, within two moments."""
        first = min(max(start_ns, self._times[0]), end_ns)
        return first, max(first, min(end_ns, self._times[-1]))

    def within(self, start_ns: int, end_ns: int) -> list[float]:
        """The samples between two moments; the nearest one if there are none."""
        first, behind = bisect_left(self._times, start_ns), bisect_right(self._times, end_ns)
        if first < behind:
            return list(self._values[first:behind])
        return [self._values[max(0, behind - 1)]] if self._times else []

    def area(self, start_ns: int, end_ns: int) -> float | None:
        """A gauge over time, in its unit × seconds; None: it was not sampled closely enough."""
        if not self.overlaps(start_ns, end_ns) or self.is_sparse(start_ns, end_ns):
            return None
        first, behind = bisect_right(self._times, start_ns), bisect_left(self._times, end_ns)
        times = [start_ns, *self._times[first:behind], end_ns]
        values = [self.at(start_ns), *self._values[first:behind], self.at(end_ns)]
        steps = zip(pairwise(times), pairwise(values), strict=True)
        return sum((b - a) * (x + y) / 2 for (a, b), (x, y) in steps) / 1e9

    def is_sparse(self, start_ns: int, end_ns: int) -> bool:
        """Whether the samples around two moments lie too far apart to tell what was between."""
        before = max(0, bisect_right(self._times, start_ns) - 1)
        after = min(len(self._times) - 1, bisect_left(self._times, end_ns))
        return self._times[after] - self._times[before] > _LOOSE * (end_ns - start_ns)

    def at(self, time_ns: int) -> float:
        """The value at a moment: a straight line between samples, level before and after them."""
        place = bisect_left(self._times, time_ns)
        if place == 0:
            return self._values[0]
        if place == len(self._times):
            return self._values[-1]
        before, after = self._times[place - 1], self._times[place]
        part = (time_ns - before) / (after - before) if after > before else 1.0
        return self._values[place - 1] + part * (self._values[place] - self._values[place - 1])
