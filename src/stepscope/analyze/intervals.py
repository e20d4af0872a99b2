"""Stretches of time in bounded memory."""

from __future__ import annotations

__all__ = ["Intervals"]

_MOST = 256


class Intervals:
    """When something ran, whoever ran it and however often at once. Neighbours with less than
    `gap_ns` between them are one; when there are too many, the gap grows."""

    def __init__(self, gap_ns: int = 1_000_000) -> None:
        self._gap_ns = gap_ns
        self._stretches: list[tuple[int, int]] = []  # (from, to), in order, apart
        self.covered_ns = 0  # by runs, gaps not counted

    def add(self, start_ns: int, end_ns: int) -> None:
        """Runs come in about the order in which they end."""
        stretches = self._stretches
        self.covered_ns += max(0, end_ns - max(start_ns, stretches[-1][1] if stretches else 0))
        while stretches and start_ns <= stretches[-1][1] + self._gap_ns:
            before, behind = stretches.pop()
            start_ns, end_ns = min(before, start_ns), max(behind, end_ns)
        stretches.append((start_ns, end_ns))
        while len(self._stretches) > _MOST:
            self._join()

    def _join(self) -> None:
        self._gap_ns *= 2
        joined = self._stretches[:1]
        for start_ns, end_ns in self._stretches[1:]:
            if start_ns <= joined[-1][1] + self._gap_ns:
                joined[-1] = (joined[-1][0], end_ns)
            else:
                joined.append((start_ns, end_ns))
        self._stretches = joined

    def get(self) -> list[tuple[int, int]]:
        return list(self._stretches)
