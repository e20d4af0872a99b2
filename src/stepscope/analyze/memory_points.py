"""Memory over time in a bounded number of points, without losing how high it went."""

from __future__ import annotations

from collections.abc import Sequence

from stepscope.model.memory import MAX_MEMORY_POINTS, MemoryPoint

__all__ = ["PointFold"]


class PointFold:
    """`update` with every point in order; `get` gives them all where there are few, else of each
    stretch the highest and the last. The highest of all is always among them.

    `count`: how many points will come, at most; `room`: how many are wanted, at most.
    """

    def __init__(self, count: int, room: int = MAX_MEMORY_POINTS) -> None:
        # Two of each stretch, and the first of all.
        self._stretches = (room - 1) // 2 if count > room else 0
        self._count = max(1, count)
        self._kept: list[MemoryPoint] = []
        self._highest: MemoryPoint | None = None
        self._last: MemoryPoint | None = None
        self._seen = 0
        self._stretch = 0

    def update(self, at_ms: float, held_bytes: Sequence[int], step: int = -1) -> None:
        point = MemoryPoint(at_ms, step, tuple(held_bytes))
        first = not self._seen
        stretch = self._seen * self._stretches // self._count
        self._seen += 1
        if first or not self._stretches:
            self._kept.append(point)
            return
        if stretch != self._stretch:
            self._end_stretch()
            self._stretch = stretch
        if self._highest is None or point.total > self._highest.total:
            self._highest = point
        self._last = point

    def get(self) -> tuple[MemoryPoint, ...]:
        self._end_stretch()
        return tuple(self._kept)

    def _end_stretch(self) -> None:
        if self._highest is not None:
            self._kept.append(self._highest)
        if self._last is not None and self._last is not self._highest:
            self._kept.append(self._last)
        self._highest = self._last = None
