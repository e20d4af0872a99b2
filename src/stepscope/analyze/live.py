"""What a run does now: folds and series, as they stand, → the figures of a live view."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from stepscope.analyze.loop import Loop
from stepscope.analyze.phases import COUNT
from stepscope.analyze.resources import ResourceFold
from stepscope.analyze.spans import PHASES
from stepscope.model import names
from stepscope.model.live import GpuNow, PhaseNow, RankNow, Used
from stepscope.model.phases import Phase

__all__ = ["NO_TRAINING", "Recent", "phases_now", "rank_now", "recent", "used_now"]

RECENT_NS = 30_000_000_000
_USED_NS = 10_000_000_000
_STILL_THERE_NS = 12_000_000_000  # a process that was not sampled for longer has ended
# What makes a step longer without being part of it.
NO_TRAINING = frozenset((Phase.EVALUATION, Phase.CHECKPOINT_SAVE, Phase.PROFILING))


class Recent(NamedTuple):
    """The end of a loop. phases_ns: in the order of PHASES."""

    lasted_ns: int
    steps: int
    phases_ns: tuple[int, ...]

    @property
    def step_ms(self) -> float | None:
        """Mean time of a step, without evaluation and saves."""
        if not self.steps:
            return None
        parts = zip(PHASES, self.phases_ns, strict=True)
        return sum(ns for phase, ns in parts if phase not in NO_TRAINING) / self.steps / 1e6


def recent(loop: Loop, window_ns: int = RECENT_NS) -> Recent:
    """The last half minute; more of a very long loop, of which less is kept by itself."""
    walls = [loop.windows.wall_ns(place) for place in range(COUNT)]
    steps = loop.windows.steps()
    at, lasted_ns = len(steps), 0
    while at and lasted_ns < window_ns:
        at -= 1
        lasted_ns += sum(wall[at] for wall in walls)
    return Recent(lasted_ns, sum(steps[at:]), tuple(sum(wall[at:]) for wall in walls))


def phases_now(loops: Sequence[Loop], lately: Sequence[Recent]) -> tuple[PhaseNow, ...]:
    """Those that occurred, in the order of a step; of all ranks together."""
    wall_ns = sum(loop.wall_ns for loop in loops)
    lately_ns = sum(one.lasted_ns for one in lately)
    if not wall_ns or not lately_ns:
        return ()
    found = []
    for place, phase in enumerate(PHASES):
        whole_ns = sum(loop.phases[phase].wall_ns for loop in loops)
        if whole_ns:
            part_ns = sum(one.phases_ns[place] for one in lately)
            found.append(PhaseNow(str(phase), whole_ns / wall_ns, part_ns / lately_ns))
    return tuple(found)


def rank_now(loop: Loop, lately: Recent) -> RankNow:
    if not lately.lasted_ns:
        return RankNow(loop.rank, loop.steps)
    most_ns = max(lately.phases_ns)
    phase = str(PHASES[lately.phases_ns.index(most_ns)])
    return RankNow(loop.rank, loop.steps, lately.step_ms, phase, most_ns / lately.lasted_ns)


def used_now(
    resources: ResourceFold,
    program_pids: Collection[int],
    now_ns: int,
    memory_limit_bytes: float | None = None,
) -> Used:
    """Over the last seconds, workers included. The limit: the machine's memory, unless told."""
    found = resources.get(now_ns - _USED_NS, now_ns, program_pids)
    both = (found.program, found.children)
    return Used(
        cpus=_sum(use.cpu_cores for use in both),
        cpu_count=found.cpu_count,
        host_cpu_share=found.cpu_busy_share,
        memory_bytes=_resident_bytes(resources, now_ns),
        memory_limit_bytes=memory_limit_bytes or found.memory_total_bytes,
        disk_read_bytes_per_s=_sum(use.read_bytes_per_s for use in both),
        disk_write_bytes_per_s=_sum(use.write_bytes_per_s for use in both),
        gpus=tuple(
            GpuNow(
                gpu.index,
                gpu.busy_share,
                gpu.memory_used_bytes,
                gpu.memory_total_bytes,
                gpu.temperature_celsius,
                gpu.power_watts,
            )
            for gpu in found.gpus
        ),
    )


def _resident_bytes(resources: ResourceFold, now_ns: int) -> float | None:
    """Of all processes that are there. What they share counts once."""
    found = resources.series(names.PROCESS_RSS_BYTES)
    shared = resources.series(names.PROCESS_SHARED_BYTES)
    held = [
        (one.at(now_ns), shared[pid].at(now_ns) if pid in shared else 0.0)
        for pid, one in found.items()
        if one.last_ns >= now_ns - _STILL_THERE_NS
    ]
    if not held:
        return None
    return max(part for _, part in held) + sum(max(0.0, rss - part) for rss, part in held)


def _sum(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None
