"""Whose live bytes grow from step to step, of what was allocated since somebody began to look.

What was there before is not seen, so a line shows up only if what it allocates now stays.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from stepscope.collect.tensor_heap import leave_heap, use_heap
from stepscope.model import names
from stepscope.record.recorder import Recorder

if TYPE_CHECKING:
    from stepscope.record.protocol import TensorHeap

__all__ = ["GrowingLines"]

MOST_LINES: Final = 12  # that are told
MOST_ENDS: Final = 100  # ends of steps that are looked at
DEPTH: Final = 16  # frames of a stack that are told
_NAME_LENGTH: Final = 300


class GrowingLines:
    """`begin`, `after_step` at the ends of steps, then `end`. Nodes of stacks are told once in the
    life of a process, so one object serves all captures of it."""

    def __init__(self) -> None:
        self._heap: TensorHeap | None = None
        self._nodes: dict[int, tuple[int, str, str, int]] = {}
        self._held: list[dict[int, tuple[int, int]]] = []  # {stack: (bytes, blocks)} at each end
        self._every = self._ends = 0

    def begin(self, recorder: Recorder, steps: int) -> None:
        """HeapUnseenError says why it cannot be seen."""
        self._held, self._ends = [], 0
        self._every = -(-steps // MOST_ENDS)
        self._heap = use_heap(recorder.core)
        self._heap.stacks(True)

    def after_step(self) -> None:
        if self._heap is None:
            return
        self._ends += 1
        if (self._ends - 1) % self._every:
            return
        held: dict[int, tuple[int, int]] = {}
        for stack, _, size, blocks in self._heap.held():
            before = held.get(stack, (0, 0))
            held[stack] = (before[0] + size, before[1] + blocks)
        self._held.append(held)

    def end(self, recorder: Recorder, number: int) -> None:
        """Tell what was seen for capture `number`, and let everything be as it was."""
        heap, self._heap = self._heap, None
        if heap is None:
            return
        try:
            for node, caller, file, function, line in heap.resolve():
                self._nodes[node] = (caller, file, function, line)
            self._tell(recorder, number)
        finally:
            heap.stacks(False)
            leave_heap(heap)

    def _tell(self, recorder: Recorder, number: int) -> None:
        if len(self._held) < 2:
            return
        first, last = self._held[0], self._held[-1]
        grown = {stack: last[stack][0] - first.get(stack, (0, 0))[0] for stack in last}
        most = sorted((stack for stack in grown if grown[stack] > 0), key=lambda one: -grown[one])
        name = recorder.intern(names.CAPTURE_MEMORY)
        for stack in most[:MOST_LINES]:
            told = {
                "stack": self._stack(stack),
                "bytes": [held.get(stack, (0, 0))[0] for held in self._held],
                "blocks": last[stack][1],
                "every": self._every,
            }
            recorder.mark(name, number, recorder.intern(json.dumps(told)))

    def _stack(self, number: int) -> list[tuple[str, int, str]]:
        """Innermost first."""
        found: list[tuple[str, int, str]] = []
        while number in self._nodes and len(found) < DEPTH:
            number, file, function, line = self._nodes[number]
            found.append((file[-_NAME_LENGTH:], line, function[:_NAME_LENGTH]))
        return found
