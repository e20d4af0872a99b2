"""The steps of one process, each by itself, as a monitor is told of them."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from stepscope.analyze.fold import LoopFold
from stepscope.analyze.phases import StepTime
from stepscope.analyze.spans import INPUT_ITER, PHASES
from stepscope.analyze.tally import Step
from stepscope.model import names
from stepscope.model.event import Batch
from stepscope.model.phases import Phase
from stepscope.model.watching import StepSeen, StepsPassed

__all__ = ["StepsSeen"]

# A step with any of these in it is not to be held against ordinary ones.
_SPECIAL = frozenset((Phase.EVALUATION, Phase.CHECKPOINT_SAVE, Phase.PROFILING))


class _Gap(NamedTuple):
    """Events that were not looked at, and how many steps ended there. end_ns: 0: there is none."""

    start_ns: int = 0
    end_ns: int = 0
    steps: int = 0


class StepsSeen:
    """`update` with every batch of a process, in order: gives the steps that are over since.

    folds: it folds the loop itself; otherwise somebody does, and tells it of each step (`take`).
    """

    def __init__(self, rank: int, pid: int, began_ns: int, *, folds: bool = True) -> None:
        self._rank = rank
        self._loop = LoopFold(rank, pid, began_ns, self.take) if folds else None
        self._steps = 0  # that are over, those of gaps included
        self._looked = self._rows = 0  # steps and events
        self._new: list[StepSeen] = []
        self._last_ns = 0  # the end of what was looked at
        self._gap = _Gap()

    def update(self, batch: Batch) -> list[StepSeen]:
        if self._loop is not None:
            self._loop.update(batch)
            self._rows += batch.count
            self._last_ns = _end_ns(batch)
        new, self._new = self._new, []
        return new

    def skip(self, batch: Batch) -> StepsPassed | None:
        """Instead of `update`: its steps are counted, and are not told. None: none ended in it."""
        start_ns = self._gap.start_ns or self._last_ns
        steps, last_ns = _optimizer_steps(batch)
        self._gap = _Gap(start_ns, _end_ns(batch), self._gap.steps + steps)
        return StepsPassed(self._rank, self._steps + self._gap.steps, last_ns) if steps else None

    @property
    def untold(self) -> int:
        """Steps that are over since the last one that was told, as far as they were passed by."""
        return self._gap.steps

    @property
    def rows_per_step(self) -> float:
        """Events of an ordinary step, about."""
        return self._rows / max(1, self._looked)

    def take(self, step: Step, time: StepTime) -> None:
        """A LoopFold's `on_step`."""
        if not step.number_of_steps:  # what comes between two steps and is part of none
            return
        self._steps += 1
        self._looked += 1
        gap = self._gap
        if gap.end_ns and step.end_ns > gap.start_ns:
            if step.start_ns < gap.end_ns:  # nobody knows where in it this one began
                return
            self._steps += gap.steps
            self._gap = _Gap()
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


def _optimizer_steps(batch: Batch) -> tuple[int, int]:
    """How many, and when the last one ended. Of the optimizer that made most: several in a row are
    one step, and one that runs another inside its own (GradScaler) is one, too."""
    args, steps = batch.columns["arg"], batch.columns["step"]
    places = [at for _, at in batch.places((names.OPTIMIZER_STEP,))]
    made = {(args[at], steps[at]) for at in places}
    times_ns, lasted_ns = batch.columns["time_ns"], batch.columns["duration_ns"]
    last_ns = max((times_ns[at] + lasted_ns[at] for at in places), default=0)
    return max(Counter(optimizer for optimizer, _ in made).values(), default=0), last_ns


def _end_ns(batch: Batch) -> int:
    """About where it ends: rows stand in the order in which they ended."""
    return batch.columns["time_ns"][-1] + batch.columns["duration_ns"][-1]
