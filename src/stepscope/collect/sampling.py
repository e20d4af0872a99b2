"""All that looks closer at a few steps, for one process and level."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

from stepscope.collect.captures import Captures
from stepscope.collect.hooking import HookingCollector
from stepscope.collect.layers import LayersCollector
from stepscope.collect.op_log import SHARE, WIDE_SHARE, OpLogCollector
from stepscope.collect.operators import OPERATOR_PLANS, OperatorsCollector
from stepscope.collect.recomputations import CheckpointsCollector
from stepscope.collect.sampled import PACES, Pace, SampledSteps
from stepscope.collect.traits import TraitsCollector
from stepscope.collect.watch import Watch

if TYPE_CHECKING:
    from stepscope.collect.cuda_memory import CudaHistory
    from stepscope.collect.tensor_memory import TensorMemory

__all__ = ["Guide", "Sampling"]

# After the first steps, and while nobody looks closer, step ends are only counted for this long.
QUIET_NS: Final = 30_000_000
ALL_STEPS: Final = 64
# Where memory is what is asked for, more steps are looked at.
MEMORY_PACE: Final = Pace(0.005, 2, 1.3, 60)

DEFAULT = "basic"


class Guide(Protocol):
    """Changes the training as it goes. Neither call may raise."""

    def seen(self, module: Any) -> None:
        """An outermost module is about to run for the first time."""

    def stepped(self, optimizer: Any) -> None:
        """A step of an optimizer has ended: every one."""


class Sampling:
    """Layers, operators and traits. `stepped` is to be called after every optimizer step."""

    def __init__(
        self,
        level: str = DEFAULT,
        pace: Pace | None = None,
        memory: Sequence[str] = (),
        looked_at: bool = False,
    ) -> None:
        """pace: another one than the level's. memory: which is looked at (config.MemoryDetail).
        looked_at: its operators are to be run again, so one step may cost more."""
        level = level if level in PACES else DEFAULT
        self.watch = Watch()
        self._told = 0
        self._unseen: Callable[[Any], None] | None = None  # `_stepped` where dynamo does not look
        self._guides: list[Guide] = []
        self._layers = LayersCollector(self.watch)
        self._operators = OperatorsCollector(OPERATOR_PLANS[level])
        self._steps = SampledSteps(self.watch, pace or (MEMORY_PACE if memory else PACES[level]))
        self._traits = TraitsCollector(self._steps.roots, self._layers)
        self._checkpoints = CheckpointsCollector()
        self._memory: TensorMemory | None = None
        if memory:
            from stepscope.collect.python_heap import PythonLines
            from stepscope.collect.tensor_memory import TensorMemory

            lines = PythonLines() if "python" in memory else None
            self._memory = TensorMemory(self._steps.roots, self._layers, lines)
        with_memory = (self._memory,) if self._memory is not None else ()
        self._steps.samplers = (self._layers, self._traits, self._checkpoints, *with_memory)
        self._captures = Captures(
            self.watch, self._steps, self._layers, self._operators, bool(memory)
        )
        self._op_log = OpLogCollector(
            lambda: self._traits.is_eager,
            self._steps_busy,
            self._steps.roots.modules,
            WIDE_SHARE if looked_at else SHARE,
        )
        # In the order in which they start; last those that begin and end the others.
        self.collectors: tuple[HookingCollector, ...] = (
            *with_memory,
            self._layers,
            self._traits,
            self._checkpoints,
            self._operators,
            self._op_log,
            self._steps,
            self._captures,
        )

    def __reduce__(self) -> tuple[type[Sampling], tuple[str]]:
        """See StepsCollector: a hook that is pickled by value brings it along."""
        return Sampling, ("production",)

    def stepped(self, optimizer: Any) -> int:
        """The time until which the ends of steps need not be told; 0: tell the next one."""
        for guide in self._guides:
            guide.stepped(optimizer)
        if self.is_calm and not self._is_looking:
            self.watch.seen = None  # the first step has shown the modules
            return 0
        self._tell(optimizer)
        self._told += 1
        if self._told <= ALL_STEPS or self._guides or self._is_looking:
            return 0
        return time.monotonic_ns() + QUIET_NS

    @property
    def _is_looking(self) -> bool:
        """Whether the end of the step that begins must not be missed."""
        return self._steps_busy() or self._op_log.is_looking

    def _tell(self, optimizer: Any) -> None:
        if self._unseen is None:
            disable = getattr(sys.modules.get("torch._dynamo"), "disable", None)
            if disable is None:  # nothing was compiled so far
                self._stepped(optimizer)
                return
            # Ours dynamo passes by, but not what we call in Python's own modules.
            self._unseen = disable(self._stepped)
        self._unseen(optimizer)

    def _stepped(self, optimizer: Any) -> None:
        """None of these raises."""
        if self._memory is not None:
            self._memory.after_step(optimizer)
        captures, operators = self._captures, self._operators
        if self._steps.after_step(optimizer):
            captures.after_step()
        self._traits.after_step(optimizer)
        is_free = captures.look is None and not self.is_calm
        if is_free or operators.is_looking:  # else no other look is begun
            operators.after_step()
        if not self.is_calm or self._op_log.is_looking:
            self._op_log.after_step(optimizer)

    @property
    def is_calm(self) -> bool:
        return self._steps.is_calm

    def set_calm(self, calm: bool) -> None:
        """calm: no step is looked at closer any more, whatever the level says."""
        self._steps.is_calm = calm

    def _steps_busy(self) -> bool:
        """Whether somebody looks at the step that begins."""
        steps, captures = self._steps, self._captures
        return steps.is_looking or self._operators.is_looking or captures.is_looking

    def follow(self, guide: Guide) -> None:
        """Before the start: somebody changes the training as it goes."""
        self._guides.append(guide)
        self._steps.roots.first_call = self._show

    def _show(self, module: Any) -> None:
        for guide in self._guides:
            guide.seen(module)

    def watch_cuda(self, history: CudaHistory) -> None:
        """Before the start: the memory of GPUs is looked at too, if any is."""
        if self._memory is not None:
            self._memory.cuda = history

    def listen(self, status_folder: str) -> None:
        """The program lives: captures may be asked for there."""
        self._captures.listen(status_folder)

    def leave(self) -> None:
        """The program is over: whoever is in it comes out."""
        self._captures.leave()
        if self._memory is not None:
            self._memory.stop()

    def after_fork(self) -> None:
        """In a child: it is not in the step that its parent looks at."""
        self._steps.drop()
        self._captures.after_fork()
        self._op_log.drop()
        if self._memory is not None:
            self._memory.after_fork()
