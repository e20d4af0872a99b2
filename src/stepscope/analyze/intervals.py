"""Stretches of time in bounded memory."""

from __future__ import annotations

from bisect import bisect_left, bisect_right

__all__ = ["Intervals"]

_MOST = 256


class Intervals:
    """When something ran, whoever ran it and however often at once. Neighbours with no more than
    `gap_ns` between them are one; when there are too many, the gap grows."""

    def __init__(self, gap_ns: int = 1_000_000) -> None:
        self._gap_ns = gap_ns
        self._starts: list[int] = []  # of the stretches, in order, apart,
        self._ends: list[int] = []  # and their ends

    def add(self, start_ns: int, end_ns: int) -> None:
        """In any order: each thread tells of its runs by itself."""
        first = bisect_left(self._ends, start_ns - self._gap_ns)
        behind = bisect_right(self._starts, end_ns + self._gap_ns)
        if first < behind:  # it touches those from `first` to before `behind`
            start_ns = min(start_ns, self._starts[first])
            end_ns = max(end_ns, self._ends[behind - 1])
        self._starts[first:behind] = [start_ns]
        self._ends[first:behind] = [end_ns]
        while len(self._starts) > _MOST:
            self._join()

    def _join(self) -> None:
        self._gap_ns = max(1, self._gap_ns * 2)
        stretches = self.get()
        self._starts, self._ends = [], []
        for start_ns, end_ns in stretches:
            if self._ends and start_ns <= self._ends[-1] + self._gap_ns:
                self._ends[-1] = end_ns
            else:
                self._starts.append(start_ns)
                self._ends.append(end_ns)

    def get(self) -> list[tuple[int, int]]:
        """(from, to), in order, apart."""
        return list(zip(self._starts, self._ends, strict=True))
