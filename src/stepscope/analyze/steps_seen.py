"""The steps of one process, each by itself, as a monitor is told of them."""

from __future__ import annotations

from stepscope.analyze.fold import LoopFold
from stepscope.analyze.phases import StepTime
from stepscope.analyze.spans import INPUT_ITER, PHASES
from stepscope.analyze.tally import Step
from stepscope.model.event import Batch
from stepscope.model.phases import Phase
from stepscope.model.watching import StepSeen

__all__ = ["StepsSeen"]

# A step with any of these in it is not to be held against ordinary ones.
_SPECIAL = frozenset((Phase.EVALUATION, Phase.CHECKPOINT_SAVE, Phase.PROFILING))


class StepsSeen:
    """`update` with every batch of a process, in order: gives the steps that are over since.

    folds: it folds the loop itself; otherwise somebody does, and tells it of each step (`take`).
    """

    def __init__(self, rank: int, pid: int, began_ns: int, *, folds: bool = True) -> None:
        self._rank = rank
        self._loop = LoopFold(rank, pid, began_ns, self.take) if folds else None
        self._steps = 0
        self._new: list[StepSeen] = []

    def update(self, batch: Batch) -> list[StepSeen]:
        if self._loop is not None:
            self._loop.update(batch)
        new, self._new = self._new, []
        return new

    def take(self, step: Step, time: StepTime) -> None:
        """A LoopFold's `on_step`."""
        if not step.number_of_steps:  # what comes between two steps and is part of none
            return
        self._steps += 1
        phases_ns: dict[str, int] = {
            phase.value: wall_ns
            for phase, wall_ns in zip(PHASES, time.wall_ns, strict=True)
            if wall_ns
        }
        special = not _SPECIAL.isdisjoint(phases_ns) or any(
            row[2] == INPUT_ITER for row in step.rows
        )
        self._new.append(
            StepSeen(self._rank, self._steps, step.start_ns, step.end_ns, phases_ns, special)
        )
