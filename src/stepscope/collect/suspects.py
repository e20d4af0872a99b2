"""Which lines are worth a closer look: those that hold more with every window.

Whether one leaks is decided by the analysis, from all windows. This only finds where to look while
the program still runs and its objects can be asked.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, Final

__all__ = ["Suspects"]

WARM_UP_STEPS: Final = 4
LEAST_BYTES: Final = 32 * 1024  # grown over the windows
MOST: Final = 8  # lines in one look
AGAIN: Final = 4  # times as many steps later a line is looked at again


class Suspects:
    """`look` with each window's rows of the heap, in the order of steps."""

    WINDOWS: ClassVar = 6  # in a row that have to grow

    def __init__(self) -> None:
        self._growing: dict[int, tuple[int, int, int]] = {}  # stack → windows, first, last bytes
        self._next_step = 0

    def look(self, rows: Iterable[tuple[int, int, int, int]], step: int) -> list[int]:
        """Stacks, the fastest first; [] most of the time. Blocks that have a purpose (parameters,
        optimizer state, …) are no suspects."""
        if step <= WARM_UP_STEPS:
            return []
        growing = {
            stack: self._continued(stack, held_bytes)
            for stack, label, held_bytes, _ in rows
            if stack and not label
        }
        self._growing = growing
        if step < self._next_step:
            return []
        found = [
            (last - first, stack)
            for stack, (windows, first, last) in growing.items()
            if windows >= self.WINDOWS and last - first >= LEAST_BYTES
        ]
        if found:
            self._next_step = step * AGAIN
        return [stack for _, stack in sorted(found, reverse=True)[:MOST]]

    def _continued(self, stack: int, held_bytes: int) -> tuple[int, int, int]:
        windows, first, last = self._growing.get(stack, (0, held_bytes, held_bytes))
        if held_bytes > last:
            return windows + 1, first, held_bytes
        if held_bytes == last:  # a batch more or less between two windows
            return windows, first, last
        return 0, held_bytes, held_bytes
