"""The loops of all ranks taken together: what findings are judged from."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

from stepscope.analyze.loop import LoaderUse, Loop
from stepscope.analyze.phases import COUNT
from stepscope.analyze.resources import Resources
from stepscope.analyze.spans import PHASES
from stepscope.model.kinds import Signal
from stepscope.model.phases import Phase
from stepscope.stats.shares import share_half_width
from stepscope.stats.student import student_t

__all__ = ["CpuWait", "Whole"]


class CpuWait(NamedTuple):
    """Waiting for a CPU: shares of the loop, by who had the CPUs."""

    thread: float = 0.0  # the training thread was ready and had no CPU, whoever had them
    workers: float = 0.0  # the wait for input, while loader workers had none
    others: float = 0.0  # the part of both that is due to other programs
    own: float = 0.0  # the part that is due to threads of this run
    others_cores: float = 0.0  # CPUs that other programs kept busy
    own_threads: float = 0.0  # threads of this run that wanted a CPU, on average
    own_waiting: float = 0.0  # those of them that had none

    @property
    def unnamed(self) -> float:
        """The part of both of which it is not known who had the CPUs."""
        return max(0.0, self.thread + self.workers - self.others - self.own)


class Whole:
    """Times are sums over ranks: shares are those of an average rank.

    Phases are given as they would be if the training thread had never waited for a CPU: that time
    has findings of its own (`cpu_wait`). `lasted` is what a clock on the wall shows.
    """

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

    def lasted(self, *phases: Phase) -> int:
        return sum(loop.phases[phase].wall_ns for loop in self.loops for phase in phases)

    def wall(self, *phases: Phase) -> int:
        """Without waiting for a CPU."""
        return self.lasted(*phases) - round(sum(self._waited[phase] for phase in phases))

    def share(self, *phases: Phase) -> float:
        return self.wall(*phases) / self.wall_ns if self.wall_ns else 0.0

    def cpu_share(self, *phases: Phase) -> float | None:
        """How much of these phases the training thread ran on a CPU; None: not measured."""
        wall_ns, cpu_ns = self.wall(*phases), self._cpu_ns(*phases)
        return min(1.0, cpu_ns / wall_ns) if wall_ns > 0 and cpu_ns is not None else None

    def blocked_share(self, *phases: Phase) -> float:
        """Share of the loop in which the thread neither ran nor waited for a CPU; 0 where it was
        not measured."""
        ran = self.cpu_share(*phases)
        return 0.0 if ran is None else self.share(*phases) * (1.0 - ran)

    @property
    def thread_cores(self) -> float | None:
        """CPU time of the training thread for each second of the loop; None: not measured."""
        cpu_ns = self._cpu_ns(*Phase)
        return None if cpu_ns is None or not self.wall_ns else min(1.0, cpu_ns / self.wall_ns)

    def _cpu_ns(self, *phases: Phase) -> int | None:
        times = [loop.phases[phase].cpu_ns for loop in self.loops for phase in phases]
        known = [cpu_ns for cpu_ns in times if cpu_ns is not None]
        return sum(known) if len(known) == len(times) else None

    @cached_property
    def cpu_wait(self) -> CpuWait:
        """A run whose threads want more CPUs than there are makes them wait for each other. What
        they wait beyond that is due to other programs, where these use CPUs at all."""
        resources = self.resources
        cpus, program, children = resources.cpu_count, resources.program, resources.children
        thread = self._thread_delay
        if not cpus or program.cpu_cores is None or program.run_delay_cores is None:
            return CpuWait(thread)
        used = program.cpu_cores + (children.cpu_cores or 0.0)
        delay = program.run_delay_cores + (children.run_delay_cores or 0.0)
        busy = resources.cpu_busy_share
        others = 0.0 if busy is None else max(0.0, busy * cpus - used)
        own = min(1.0, max(0.0, used + delay - cpus) / delay) if delay > 0 else 0.0
        is_wanted = used + delay >= Signal.WANTED_PER_CPU * cpus
        is_own = is_wanted and delay >= Signal.DELAY_PER_CPU_TIME * used
        workers, crowd = self._workers_wait
        to_others = 1 - own if others >= Signal.OTHERS_CORES else 0.0
        crowding = own if crowd else 0.0
        by_others = (thread + workers) * to_others
        by_own = (thread * own if is_own else 0.0) + workers * crowding
        workers *= to_others + crowding  # for the rest, batches simply need the CPUs
        return CpuWait(thread, workers, by_others, by_own, others, used + delay, delay)

    @cached_property
    def _thread_delay(self) -> float:
        """Share of the loop in which the training thread was ready and had no CPU. Where the loop
        is not in the main thread, that of all threads, at most."""
        program = self.resources.program
        delay = program.main_delay_cores
        if delay is None or any(loop.track != loop.pid for loop in self.loops):
            delay = program.run_delay_cores or 0.0
        ran = self.thread_cores
        return min(delay / max(1, len(self.loops)), 1.0 - ran) if ran is not None else 0.0

    @property
    def threads_delay(self) -> float:
        """Threads of a rank beside the training thread that were ready and had no CPU."""
        delay = self.resources.program.run_delay_cores or 0.0
        return max(0.0, delay / max(1, len(self.loops)) - self._thread_delay)

    @property
    def _workers_wait(self) -> tuple[float, bool]:
        """The wait for input in which loader workers waited for a CPU, and whether they crowd each
        other: each has several threads, which together want more CPUs than there are."""
        children, use, cpus = self.resources.children, self.loader, self.resources.cpu_count
        workers = (use.settings.get("workers") or 0) if use is not None else 0
        if not workers or not children.run_delay_cores or children.cpu_cores is None or not cpus:
            return 0.0, False
        wanted = children.cpu_cores + children.run_delay_cores
        waited_ns = children.run_delay_cores / wanted * self.lasted(Phase.INPUT_WAIT)
        waited_ns = min(waited_ns, self._off_cpu_ns(Phase.INPUT_WAIT))
        most = max(cpus, workers * len(self.loops))
        return waited_ns / self.wall_ns, wanted >= Signal.WANTED_PER_CPU * most

    def _off_cpu_ns(self, phase: Phase) -> float:
        """In which the training thread neither ran nor waited for a CPU."""
        return max(
            0.0, self.lasted(phase) - (self._cpu_ns(phase) or 0) - self._thread_waited[phase]
        )

    @cached_property
    def _waited(self) -> dict[Phase, float]:
        """Waiting for a CPU, by phase, in ns."""
        for_workers = self.cpu_wait.workers * self.wall_ns
        waited = self._thread_waited
        return {**waited, Phase.INPUT_WAIT: waited[Phase.INPUT_WAIT] + for_workers}

    @cached_property
    def _thread_waited(self) -> dict[Phase, float]:
        """By the training thread itself. A thread that runs more has to wait more: the delay
        divides by the time on the CPU, and no phase has more of it than it was off the CPU."""
        waited = dict.fromkeys(Phase, 0.0)
        left = self._thread_delay * self.wall_ns
        ran = {phase: float(self._cpu_ns(phase) or 0) for phase in Phase}
        room = {phase: max(0.0, self.lasted(phase) - ran[phase]) for phase in Phase}
        for weights in (ran, ran, ran, room):  # what finds no room in one goes to the others
            open_to = {phase: weights[phase] for phase in Phase if room[phase] > 0}
            total = sum(open_to.values())
            part = left / total if total else 0.0
            for phase, weight in open_to.items():
                taken = min(part * weight, room[phase])
                waited[phase] += taken
                room[phase] -= taken
                left -= taken
        return waited

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
