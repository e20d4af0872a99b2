"""Which lines are worth a closer look: those that hold more with every window.

Whether one leaks is decided by the analysis, from all windows. This only finds where to look while
the program still runs and its objects can be asked.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, Final, NamedTuple

__all__ = ["Suspects"]

WARM_UP_STEPS: Final = 4
LEAST_BYTES: Final = 32 * 1024  # grown over the windows
MOST: Final = 8  # lines in one look
AGAIN: Final = 4  # times as many steps later a line is looked at again
# Garbage in cycles grows for at least so many windows until Python collects it, on average.
GROWING_PER_FALL: Final = 3


class _Line(NamedTuple):
    """What one stack holds. growing, falls: windows in which it held more, and in which not.
    in_a_row, low_bytes: since the last fall, and right after it."""

    growing: int
    falls: int
    in_a_row: int
    low_bytes: int
    bytes: int

    @property
    def grown_bytes(self) -> int:
        return self.bytes - self.low_bytes

    @property
    def mostly_grows(self) -> bool:
        if self.in_a_row >= Suspects.WINDOWS:
            return True
        return self.growing >= max(Suspects.WINDOWS, GROWING_PER_FALL * self.falls)

    def then(self, held_bytes: int) -> _Line:
        if held_bytes > self.bytes:
            grown = (self.growing + 1, self.falls, self.in_a_row + 1, self.low_bytes)
            return _Line(*grown, held_bytes)
        return _Line(self.growing, self.falls + 1, 0, held_bytes, held_bytes)


class Suspects:
    """`look` with what has changed in each window, in the order of steps.

    A leak grows in every window, garbage in cycles grows and falls when it is collected.
    """

    WINDOWS: ClassVar = 6  # that have to grow

    def __init__(self) -> None:
        self._lines: dict[int, _Line] = {}  # by stack
        self._next_step = 0

    def look(self, rows: Iterable[tuple[int, int, int, int]], step: int) -> list[int]:
        """Stacks, the fastest first; [] most of the time. Blocks that have a purpose (parameters,
        optimizer state, …) are no suspects."""
        if step <= WARM_UP_STEPS:
            return []
        for stack, label, held_bytes, _ in rows:
            if stack and not label:
                known = self._lines.get(stack)
                new = known.then(held_bytes) if known else _Line(0, 0, 0, held_bytes, held_bytes)
                self._lines[stack] = new
        if step < self._next_step:
            return []
        found = [
            (line.grown_bytes, stack)
            for stack, line in self._lines.items()
            if line.mostly_grows and line.grown_bytes >= LEAST_BYTES
        ]
        if found:
            self._next_step = step * AGAIN
        return [stack for _, stack in sorted(found, reverse=True)[:MOST]]
