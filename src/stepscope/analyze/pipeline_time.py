"""Sums over the course of a run in bounded memory, for a window that is known only at its end."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import NamedTuple

__all__ = ["Sum", "TimedSums", "merge"]

_BUCKETS = 1024
_WIDTH_NS = 1 << 20  # about a millisecond, to begin with


class Sum(NamedTuple):
    """`cpu_ns` of the spans whose CPU clock was read, which lasted `clocked_ns`."""

    calls: float = 0.0
    wall_ns: float = 0.0
    clocked_ns: float = 0.0
    cpu_ns: float = 0.0

    def plus(self, other: Sum) -> Sum:
        return Sum(*(a + b for a, b in zip(self, other, strict=True)))

    @property
    def cpu(self) -> float | None:
        """The CPU time of all of them; None: not measured."""
        return self.cpu_ns * self.wall_ns / self.clocked_ns if self.clocked_ns else None


class TimedSums:
    """Sums by key in buckets of time, whose width doubles when there are too many."""

    def __init__(self) -> None:
        self._width_ns = _WIDTH_NS
        self._buckets: dict[int, dict[Hashable, list[float]]] = {}

    def add(
        self, at_ns: int, key: Hashable, wall_ns: float, cpu_ns: float = -1, weight: float = 1.0
    ) -> None:
        number = at_ns // self._width_ns
        bucket = self._buckets.get(number)
        if bucket is None:
            if len(self._buckets) >= _BUCKETS:
                self._widen()
                number = at_ns // self._width_ns
            bucket = self._buckets.setdefault(number, {})
        cell = bucket.get(key)
        if cell is None:
            cell = bucket[key] = [0.0, 0.0, 0.0, 0.0]
        cell[0] += weight
        cell[1] += wall_ns * weight
        if cpu_ns >= 0:
            cell[2] += wall_ns * weight
            cell[3] += cpu_ns * weight

    def _widen(self) -> None:
        old, self._buckets = self._buckets, {}
        self._width_ns *= 2
        for number, cells in old.items():
            bucket = self._buckets.setdefault(number // 2, {})
            for key, cell in cells.items():
                there = bucket.setdefault(key, [0.0, 0.0, 0.0, 0.0])
                there[:] = [a + b for a, b in zip(there, cell, strict=True)]

    def within(self, windows: Sequence[tuple[int, int]]) -> dict[Hashable, Sum]:
        """What lies within these windows of time, to the width of a bucket."""
        found: dict[Hashable, Sum] = {}
        for number, cells in self._buckets.items():
            middle_ns = number * self._width_ns + self._width_ns // 2
            slack_ns = self._width_ns // 2
            if any(a - slack_ns <= middle_ns <= b + slack_ns for a, b in windows):
                merge(found, ((key, Sum(*cell)) for key, cell in cells.items()))
        return found


def merge(into: dict[Hashable, Sum], sums: Iterable[tuple[Hashable, Sum]]) -> None:
    """Add these to those."""
    for key, more in sums:
        old = into.get(key)
        into[key] = more if old is None else old.plus(more)
