"""Phase times over the course of a run in bounded memory."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

from stepscope.analyze.phases import COUNT, StepTime

__all__ = ["MAX_WINDOWS", "Windows"]

MAX_WINDOWS = 4096
_WIDTH = 1 + 2 * COUNT  # steps, wall by phase, CPU by phase


class Windows:
    """One window a step, until there are too many; then neighbours are joined, two and two."""

    def __init__(self) -> None:
        self._full = array("q")
        self._last: list[int] = []
        self._steps_each = 1

    def update(self, time: StepTime, steps: int = 1) -> None:
        values = [steps, *time.wall_ns, *time.cpu_ns]
        if self._last:
            values = [a + b for a, b in zip(self._last, values, strict=True)]
        if values[0] < self._steps_each:
            self._last = values
            return
        self._last = []
        self._append(values)

    def add_rest(self, time: StepTime) -> None:
        """Time after the last step (a final evaluation or save): a window of its own, no step."""
        self._append([0, *time.wall_ns, *time.cpu_ns])

    def _append(self, values: list[int]) -> None:
        self._full.fromlist(values)
        if len(self._full) >= MAX_WINDOWS * _WIDTH:
            self._join()

    def steps(self) -> list[int]:
        return self._column(0)

    def wall_ns(self, phase: int) -> list[int]:
        """Wall time of a phase (its place in PHASES), window by window."""
        return self._column(1 + phase)

    def cpu_ns(self, phase: int) -> list[int]:
        return self._column(1 + COUNT + phase)

    def copy(self) -> Windows:
        made = Windows()
        made._full, made._last = self._full[:], self._last
        made._steps_each = self._steps_each
        return made

    def without_start(self, count: int, phases: Sequence[int]) -> Windows:
        """The same, without these phases and without steps in the first `count` windows."""
        made = self.copy()
        for window in range(count):
            at = window * _WIDTH
            made._full[at] = 0
            for place in phases:
                made._full[at + 1 + place] = made._full[at + 1 + COUNT + place] = 0
        while count and not any(made._full[:_WIDTH]):
            del made._full[:_WIDTH]
            count -= 1
        return made

    def _column(self, place: int) -> list[int]:
        rest: Sequence[int] = self._last[place : place + 1]
        return [*self._full[place::_WIDTH], *rest]

    def _join(self) -> None:
        joined = array("q")
        full = self._full
        for at in range(0, len(full), 2 * _WIDTH):
            first, second = full[at : at + _WIDTH], full[at + _WIDTH : at + 2 * _WIDTH]
            joined.fromlist([a + b for a, b in zip(first, second, strict=True)])
        self._full = joined
        self._steps_each *= 2
