"""The loops of all ranks taken together: what findings are judged from."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from stepscope.analyze.loop import LoaderUse, Loop
from stepscope.analyze.phases import COUNT
from stepscope.analyze.resources import Resources
from stepscope.analyze.spans import PHASES
from stepscope.model.phases import Phase
from stepscope.stats.shares import share_half_width
from stepscope.stats.student import student_t

__all__ = ["Whole"]

# Where the thread has work to do.
_RUNS = (Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER, Phase.PYTHON_BETWEEN)


class Whole:
    """Times are sums over ranks: shares are those of an average rank."""

    def __init__(self, loops: Sequence[Loop], resources: Resources) -> None:
        self.loops = loops
        self.resources = resources

    @cached_property
    def wall_ns(self) -> int:
        return sum(loop.wall_ns for loop in self.loops)

    @cached_property
    def steps(self) -> int:
        return sum(loop.steps for loop in self.loops)

    @property
    def step_ns(self) -> float:
        """Wall clock of the loop for each step, evaluation and saves included."""
        return self.wall_ns / self.steps if self.steps else 0.0

    def wall(self, *phases: Phase) -> int:
        return sum(loop.phases[phase].wall_ns for loop in self.loops for phase in phases)

    def share(self, *phases: Phase) -> float:
        return self.wall(*phases) / self.wall_ns if self.wall_ns else 0.0

    def cpu_share(self, *phases: Phase) -> float | None:
        """How much of these phases the training thread ran on a CPU; None: not measured."""
        wall_ns = self.wall(*phases)
        times = [loop.phases[phase].cpu_ns for loop in self.loops for phase in phases]
        known = [cpu_ns for cpu_ns in times if cpu_ns is not None]
        return min(1.0, sum(known) / wall_ns) if wall_ns and len(known) == len(times) else None

    def delayed_share(self, phase: Phase) -> float:
        """Share of the loop in which the thread was in that phase, ready, and without a CPU.

        The kernel counts such delays for the process; they divide over computation and what lies
        between as the time off the CPU does. 0 where it was not measured.
        """
        delay = self.resources.program.run_delay_cores
        off = {one: self._off_cpu_share(one) for one in (*_RUNS, phase)}
        total = sum(off.values())
        if delay is None or not total:
            return 0.0
        return off[phase] * min(1.0, delay / max(1, len(self.loops)) / total)

    def _off_cpu_share(self, phase: Phase) -> float:
        ran = self.cpu_share(phase)
        return 0.0 if ran is None else self.share(phase) * (1.0 - ran)

    @property
    def coverage(self) -> float:
        """1: every moment of the loop is explained."""
        return 1.0 - self.share(Phase.UNEXPLAINED)

    def stability(self, *phases: Phase) -> float:
        """How far this share of the time can be relied on: 1 when it is the same all the time.

        From the 95 % interval of the share, taken relative to it: 0.5 when it is as wide to each
        side as the share itself. A single window tells nothing about the next.
        """
        places = [PHASES.index(phase) for phase in phases]
        parts: list[float] = []
        for loop in self.loops:
            columns = [loop.windows.wall_ns(place) for place in places]
            parts += [float(sum(window)) for window in zip(*columns, strict=True)]
        half_width = share_half_width(parts, self._window_walls)
        share = self.share(*phases)
        if not share:
            return 0.0
        relative = student_t(1) if half_width is None else half_width / share
        return 1.0 / (1.0 + relative)

    @cached_property
    def _window_walls(self) -> list[float]:
        return [
            float(sum(window))
            for loop in self.loops
            for window in zip(*(loop.windows.wall_ns(p) for p in range(COUNT)), strict=True)
        ]

    @property
    def loader(self) -> LoaderUse | None:
        """The loader that training waited for most."""
        uses = [use for loop in self.loops for use in loop.loaders]
        return max(uses, key=lambda use: use.wait_ns, default=None)

    @property
    def batches(self) -> int:
        return sum(use.batches for loop in self.loops for use in loop.loaders)
