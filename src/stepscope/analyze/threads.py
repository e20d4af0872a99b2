"""Which thread trains: the spans of all threads, kept until one of them shows an optimizer step."""

from __future__ import annotations

from collections.abc import Iterable

from stepscope.analyze.spans import BACKWARD, FAILED, FORWARD, INPUT_NEXT, OPTIMIZER, SpanRow
from stepscope.analyze.steps import FoundBy

__all__ = ["Threads"]

_SIGNS = {
    FORWARD: FoundBy.FORWARD,
    INPUT_NEXT: FoundBy.LOADER,
    BACKWARD: FoundBy.BACKWARD,
    OPTIMIZER: FoundBy.OPTIMIZER,
}


_IDLE = 1000  # spans of a thread that shows no sign of steps: a worker's collections, say


class Threads:
    """`update` with spans of any thread, `best` for the strongest sign of steps among them."""

    def __init__(self) -> None:
        self._rows: dict[int, list[SpanRow]] = {}
        self._signs: dict[tuple[FoundBy, int], int] = {}  # (sign, thread) → how often

    def __len__(self) -> int:
        return sum(map(len, self._rows.values()))

    def update(self, rows: Iterable[SpanRow]) -> None:
        for row in rows:
            track = row[8]
            self._rows.setdefault(track, []).append(row)
            sign = _SIGNS.get(row[2])
            if sign is not None and not row[7] & FAILED:
                self._signs[sign, track] = self._signs.get((sign, track), 0) + 1
        signing = {track for _, track in self._signs}
        for track, kept in self._rows.items():
            if len(kept) > _IDLE and track not in signing:
                del kept[: -_IDLE // 2]

    def best(self) -> tuple[FoundBy, int]:
        """The strongest sign of steps and the thread that shows most of it."""
        strongest = max((sign for sign, _ in self._signs), default=FoundBy.NOTHING)
        counts = {track: n for (sign, track), n in self._signs.items() if sign is strongest}
        return strongest, max(counts, key=counts.__getitem__, default=0)

    def signs(self) -> int:
        """How often the strongest sign was seen: about the number of steps."""
        return self._signs.get(self.best(), 0)

    def rows(self, track: int) -> list[SpanRow]:
        return self._rows.get(track, [])

    def clear(self) -> None:
        self._rows.clear()
        self._signs.clear()
