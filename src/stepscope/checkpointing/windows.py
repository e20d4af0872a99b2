"""A step cut at its module calls, forward and backward: how much memory was live between two cuts.

Window `n` lies between mark `n - 1` and mark `n`.
"""

from __future__ import annotations

from typing import Any

from stepscope.checkpointing.calls import Call, CallWatch
from stepscope.checkpointing.meter import Marked, Meter
from stepscope.checkpointing.tensors import tensors_in

__all__ = ["Passage", "WindowStep"]


class Passage:
    """Where a call stands among the marks of its step."""

    __slots__ = ("backward", "began", "begin", "end", "ended")

    def __init__(self, begin: int, began: Any) -> None:
        self.begin = begin  # mark at which its forward began
        self.began = began  # moment
        self.end = -1  # mark at which its forward ended; -1: it did not
        self.ended: Any = None
        self.backward = -1  # mark at which the gradient of its result was there; -1: never


class WindowStep:
    """From one step end to the next. `close` at its end."""

    def __init__(self, modules: list[Any], meter: Meter) -> None:
        self.marks: list[Marked] = []
        self.passages: list[Passage] = []
        self._meter = meter
        self._ended: Any = None
        meter.mark()  # what was before is not of this step
        self._watch = CallWatch(modules, self._enter, self._leave)

    @property
    def calls(self) -> list[Call]:
        return self._watch.calls

    def close(self) -> None:
        self._watch.remove()
        self._ended = self._meter.moment()

    def end(self) -> None:
        """The step is over and whole. Raises what went wrong in it."""
        self.close()
        if self._watch.error is not None:
            raise self._watch.error
        self._mark()

    @property
    def peak_bytes(self) -> int:
        return max(mark.peak_bytes for mark in self.marks)

    def forward_ms(self, passage: Passage) -> float:
        return self._meter.ms(passage.began, passage.ended)

    def _mark(self) -> int:
        self.marks.append(self._meter.mark())
        return len(self.marks) - 1

    def _enter(self, _: Call, __: tuple[Any, ...]) -> None:
        self.passages.append(Passage(self._mark(), self._meter.moment()))

    def _leave(self, call: Call, result: tuple[Any, ...]) -> None:
        passage = self.passages[call.number]
        passage.ended, passage.end = self._meter.moment(), self._mark()

        def gradient_came(_: Any) -> None:
            # A graph may be gone through again when the step is over.
            if passage.backward < 0 and self._ended is None and self._watch.error is None:
                try:
                    passage.backward = self._mark()
                except Exception as error:  # noqa: BLE001 - the border with the user's program
                    self._watch.error = error

        for tensor in tensors_in(result):
            if tensor.grad_fn is not None:
                tensor.grad_fn.register_prehook(gradient_came)
