"""Stacks for a monitor in the program: sampled only while something is about to become an alert."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from stepscope.collect.stacks import StackCollector, tell_stacks_again
from stepscope.model.watching import Condition
from stepscope.record.recorder import Recorder

__all__ = ["Suspicion"]

_INTERVAL_S: Final = 0.02  # between two samples
_IN_STACKS: Final = ("stall", "phase:", "kinds:")  # what asks for lines


class Suspicion:
    """`update` with what holds and is not told yet. All calls come from one thread at a time."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._stacks: StackCollector | None = None

    def update(self, pending: Iterable[Condition]) -> None:
        wanted = any(one.asks.startswith(_IN_STACKS) for one in pending)
        if wanted and self._stacks is None:
            self._stacks = StackCollector(_INTERVAL_S)
            self._stacks.start(self._recorder)
        elif not wanted:
            self.end()

    def confirm(self) -> None:
        """It is an alert now: what was seen is going to be read back."""
        if self._stacks is not None:
            self._stacks.resolve()
            tell_stacks_again()  # only the last events are read back
            self._recorder.flush()

    def end(self) -> None:
        stacks, self._stacks = self._stacks, None
        if stacks is not None:
            stacks.stop()
