"""What the collectors that stand in torch have in common: going in once, and coming out again."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar

from stepscope.collect.chain import Patches, nothing
from stepscope.record.recorder import Recorder

__all__ = ["HookingCollector"]


class HookingCollector(ABC):
    """A collector that replaces functions. `first` is called at the loop's first sign of life."""

    name: ClassVar[str]

    def __init__(self, first: Callable[[], None] = nothing) -> None:
        self._first = first
        self._patches = Patches()
        self._running = False

    def start(self, recorder: Recorder) -> None:
        """Put the hooks in place; a second start changes nothing."""
        if not self._running:
            self._running = True
            self._install(recorder)

    def stop(self) -> None:
        """Put everything back as it was."""
        if self._running:
            self._running = False
            self._uninstall()

    @abstractmethod
    def _install(self, recorder: Recorder) -> None: ...

    def _uninstall(self) -> None:
        self._patches.undo()
