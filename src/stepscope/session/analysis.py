"""Folds what a run recorded, as it arrives or all at once, into its summary."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from stepscope.analyze.fold import LoopFold
from stepscope.analyze.overhead import OwnCostFold
from stepscope.analyze.resources import ResourceFold
from stepscope.model.event import Batch
from stepscope.model.process import ProcessInfo

__all__ = ["RunFold"]


class _ProcessFold:
    """What is known of one process."""

    def __init__(self, process: ProcessInfo) -> None:
        self.process = process
        self.loop = LoopFold(process.rank, process.pid, process.monotonic_ns)
        self.cost = OwnCostFold()


class RunFold:
    """All processes of a run: `update` with what they recorded, in order."""

    def __init__(self) -> None:
        self._processes: dict[tuple[str, int, int], _ProcessFold] = {}
        self._resources = ResourceFold()

    @property
    def loops(self) -> list[LoopFold]:
        """Of the processes that belong to the program."""
        return [fold.loop for fold in self._processes.values() if fold.process.role == "program"]

    def update(self, process: ProcessInfo, batches: Iterable[Batch]) -> None:
        key = (process.host, process.pid, process.monotonic_ns)
        fold = self._processes.get(key)
        if fold is None:
            fold = self._processes[key] = _ProcessFold(process)
        for batch in batches:
            fold.cost.update(batch)
            self._resources.update(batch)
            if process.role == "program":
                fold.loop.update(batch)

    def summary(self, run: Path, meta: Any) -> dict[str, Any] | None:
        return None
