"""Stacks for a monitor in the program: sampled only while something is about to become an alert."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Final

from stepscope.collect.stacks import StackCollector, tell_stacks_again
from stepscope.model.watching import Condition
from stepscope.record.recorder import Recorder

__all__ = ["Suspicion"]

_INTERVAL_S: Final = 0.02  # between two samples, while something is suspected
_AT_ONCE_S: Final = 0.005  # and where it became an alert without having been suspected,
_LOOK_S: Final = 0.2  # for so long
_IN_STACKS: Final = ("stall", "phase:", "kinds:")  # what asks for lines


class Suspicion:
    """`update` with what holds and is not told yet. All calls come from one thread at a time."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._stacks: StackCollector | None = None

    def update(self, pending: Iterable[Condition]) -> None:
        wanted = any(one.asks.startswith(_IN_STACKS) for one in pending)
        if wanted and self._stacks is None:
            self._stacks = self._started(_INTERVAL_S)
        elif not wanted:
            self.end()

    def confirm(self, condition: Condition) -> None:
        """It is an alert now: what was seen can be read back. Takes a moment where nothing was
        suspected, as of a program that stands still."""
        if not condition.asks.startswith(_IN_STACKS):
            return
        if self._stacks is None:
            look = self._started(_AT_ONCE_S)
            time.sleep(_LOOK_S)
            look.stop()
        else:
            self._stacks.resolve()
        tell_stacks_again()  # only the last events are read back
        self._recorder.flush()

    def end(self) -> None:
        stacks, self._stacks = self._stacks, None
        if stacks is not None:
            stacks.stop()

    def _started(self, interval_s: float) -> StackCollector:
        stacks = StackCollector(interval_s)
        stacks.start(self._recorder)
        return stacks
