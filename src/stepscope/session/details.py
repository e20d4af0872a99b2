"""Folds what stands behind the findings: the input pipeline, stacks, layers, operators, traits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from stepscope.analyze.checkpoints import CheckpointFold
from stepscope.analyze.layers import LayerFold
from stepscope.analyze.loop import Loop
from stepscope.analyze.pipeline import PipelineFold
from stepscope.analyze.resources import ResourceFold
from stepscope.analyze.stacks import StackFold
from stepscope.analyze.timeline import make_timeline
from stepscope.model import names
from stepscope.model.details import Details, PhaseStacks
from stepscope.model.event import Batch
from stepscope.model.process import ProcessInfo

if TYPE_CHECKING:
    from stepscope.analyze.memory_run import GrownNow, MemoryFold
    from stepscope.model.memory import Memory

__all__ = ["DetailsFold"]


class DetailsFold:
    """`update` with every batch of every process of the program; `get` at any time."""

    def __init__(self, *, is_watched: bool = False) -> None:
        """is_watched: somebody will ask for `stacks_since`."""
        self._pipeline = PipelineFold()
        self._stacks = StackFold(keeps_recent=is_watched)
        self._layers = LayerFold()
        self._checkpoints = CheckpointFold()
        self._memory: dict[int, MemoryFold] = {}  # by pid

    def update(self, process: ProcessInfo, batch: Batch) -> None:
        self._pipeline.update(process, batch)
        self._stacks.update(process, batch)
        self._layers.update(process, batch)
        self._checkpoints.update(process, batch)
        self._update_memory(process, batch)

    def update_outside(self, batch: Batch) -> None:
        """Of the launcher."""
        self._layers.update_outside(batch)

    def stacks_since(self, pid: int, start_ns: int, until_ns: int) -> tuple[PhaseStacks, ...]:
        """Phases of a process's training thread between two moments of the last minute."""
        return self._stacks.since(pid, start_ns, until_ns)

    def most_grown(self, pid: int, grown_bytes: float) -> GrownNow | None:
        """The line that holds more and more; None: it is not known, or nobody looks at memory."""
        fold = self._memory.get(pid)
        return None if fold is None else fold.most_grown(grown_bytes)

    def logged(self, loops: Sequence[Loop]) -> tuple[tuple[str, int], ...]:
        """The operators of one step: what each was called with as JSON, and how often."""
        return self._layers.get(loops).logged

    def get(self, loops: Sequence[Loop], resources: ResourceFold, own: ResourceFold) -> Details:
        """`loops`: one of each rank; `resources`: of whoever sampled the host; `own`: what the
        program sampled."""
        if not loops:
            return Details()
        layers = self._layers.get(loops)
        first = min(loops, key=lambda loop: loop.rank)
        return Details(
            pipeline=self._pipeline.get(loops),
            stacks=self._stacks.get(loops),
            layers=layers.layers,
            layer_steps=layers.layer_steps,
            ops=layers.ops,
            op_steps=layers.op_steps,
            traits=layers.traits,
            timeline=make_timeline(first, resources, {loop.pid for loop in loops}, own=own),
            memory=self._memory_of(first),
            checkpointing=self._checkpoints.get(loops),
        )

    def _update_memory(self, process: ProcessInfo, batch: Batch) -> None:
        """From where on a process says that its memory is seen."""
        fold = self._memory.get(process.pid)
        if fold is None and next(batch.places((names.MEMORY_SEEN,)), None) is not None:
            # Few programs are looked at like that: the others do without this import.
            from stepscope.analyze.memory_run import MemoryFold

            fold = self._memory[process.pid] = MemoryFold()
        if fold is not None:
            fold.update(batch)

    def _memory_of(self, loop: Loop) -> Memory | None:
        fold = self._memory.get(loop.pid)
        return fold.get(loop.rank) if fold is not None else None
