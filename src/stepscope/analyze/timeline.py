"""Loop and samples → the run over time, bounded whatever its length."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import accumulate, pairwise

from stepscope.analyze.loop import Loop
from stepscope.analyze.resources import ResourceFold
from stepscope.analyze.series import Series
from stepscope.analyze.spans import PHASES
from stepscope.model import names
from stepscope.model.timeline import MAX_POINTS, ResourcePoint, StepBucket, Timeline

__all__ = ["make_timeline"]

_MS = 1_000_000


def make_timeline(
    loop: Loop,
    resources: ResourceFold,
    program_pids: Collection[int],
    most: int = MAX_POINTS,
    own: ResourceFold | None = None,
) -> Timeline:
    """`program_pids`: the processes that train; at most `most` buckets and as many points. `own`:
    what these sampled of themselves."""
    places = [place for place in range(len(PHASES)) if any(loop.windows.wall_ns(place))]
    cpus = resources.series(names.HOST_CPU_COUNT).get(0)
    return Timeline(
        rank=loop.rank,
        wall_ms=loop.wall_ns / _MS,
        phases=tuple(PHASES[place].value for place in places),
        buckets=tuple(_buckets(loop, places, most)),
        points=tuple(_Points(loop, resources, program_pids).get(most)),
        cpu_count=None if cpus is None else cpus.at(loop.end_ns),
        rss=tuple(_rss(loop, resources, own, most)),
    )


def _rss(
    loop: Loop, resources: ResourceFold, own: ResourceFold | None, most: int
) -> Iterable[tuple[float, float]]:
    found = own.series(names.PROCESS_OWN_RSS_BYTES).get(loop.pid) if own is not None else None
    found = found or resources.series(names.PROCESS_RSS_BYTES).get(loop.pid)
    points = found.points(loop.start_ns, loop.end_ns) if found is not None else []
    for at_ns, size in points[:: -(-len(points) // most) or 1]:
        yield _rounded((at_ns - loop.start_ns) / _MS), size


def _buckets(loop: Loop, places: Sequence[int], most: int) -> Iterable[StepBucket]:
    if not places:
        return  # no step took any time
    steps = loop.windows.steps()
    walls = [loop.windows.wall_ns(place) for place in places]
    starts_ns = list(accumulate((sum(parts) for parts in zip(*walls, strict=True)), initial=0))
    firsts = list(accumulate(steps, initial=0))
    for begin, end in pairwise(_borders(steps, most)):
        yield StepBucket(
            start_ms=_rounded(starts_ns[begin] / _MS),
            first_step=firsts[begin],
            steps=firsts[end] - firsts[begin],
            ms=tuple(_rounded(sum(wall[begin:end]) / _MS) for wall in walls),
        )


def _borders(steps: Sequence[int], most: int) -> list[int]:
    """Where buckets begin and end; time after the last step has its own."""
    count = len(steps)
    trained = count - 1 if count > 1 and not steps[-1] else count
    each = -(-trained // max(1, most - 1)) or 1
    borders = [*range(0, trained, each), trained]
    return borders if trained == count else [*borders, count]


def _rounded(value: float) -> float:
    return round(value, 3)


class _Points:
    """What the processes of a run used over the time of the loop."""

    def __init__(self, loop: Loop, resources: ResourceFold, program_pids: Collection[int]) -> None:
        self._start_ns, self._end_ns = loop.start_ns, loop.end_ns
        cpu, rss = (resources.series(n) for n in (names.PROCESS_CPU_NS, names.PROCESS_RSS_BYTES))
        own = set(program_pids)
        self._program_cpu = [series for pid, series in cpu.items() if pid in own]
        self._children_cpu = [series for pid, series in cpu.items() if pid not in own]
        self._program_rss = [series for pid, series in rss.items() if pid in own]
        self._children_rss = [series for pid, series in rss.items() if pid not in own]
        reaped = resources.series(names.PROCESS_REAPED_CPU_NS)
        self._reaped = [series for pid, series in reaped.items() if pid in own]
        self._gpu_busy = list(resources.series(names.GPU_BUSY_SHARE).values())
        self._gpu_memory = list(resources.series(names.GPU_MEMORY_USED_BYTES).values())

    def get(self, most: int) -> Iterable[ResourcePoint]:
        for before_ns, at_ns in pairwise(self._times(most)):
            busy = [series.at(at_ns) for series in self._gpu_busy]
            yield ResourcePoint(
                at_ms=_rounded((at_ns - self._start_ns) / _MS),
                program_cores=_cores(self._program_cpu, before_ns, at_ns),
                children_cores=self._children_cores(before_ns, at_ns),
                program_rss_bytes=_together(self._program_rss, at_ns),
                children_rss_bytes=_together(self._children_rss, at_ns),
                gpu_busy_share=_rounded(sum(busy) / len(busy)) if busy else None,
                gpu_memory_bytes=_together(self._gpu_memory, at_ns),
            )

    def _times(self, most: int) -> list[int]:
        """When the program was sampled during the loop, and once before that."""
        sampled = {
            time_ns
            for series in (*self._program_cpu, *self._gpu_busy)
            for time_ns, _ in series.points(self._start_ns, self._end_ns)
        }
        times = sorted(sampled | ({self._start_ns} if self._known_at_start() else set()))
        each = -(-max(0, len(times) - 1) // most) or 1
        return [*times[:-1:each], *times[-1:]]

    def _known_at_start(self) -> bool:
        return any(series.covers(self._start_ns) for series in self._program_cpu)

    def _children_cores(self, before_ns: int, at_ns: int) -> float | None:
        """What a child used before it ended is in its parent's figure from then on."""
        if not self._children_cpu and not self._reaped:
            return None
        grown = sum(one.at(at_ns) - one.at(before_ns) for one in self._reaped)
        grown += sum(one.at(at_ns) for one in self._children_cpu if one.covers(at_ns))
        grown -= sum(one.at(before_ns) for one in self._children_cpu if one.covers(before_ns))
        return _rounded(max(0.0, grown / (at_ns - before_ns)))


def _cores(series: Sequence[Series], before_ns: int, at_ns: int) -> float | None:
    alive = [one for one in series if one.overlaps(before_ns, at_ns)]
    if not alive:
        return None
    grown = sum(one.at(at_ns) - one.at(before_ns) for one in alive)
    return _rounded(max(0.0, grown / (at_ns - before_ns)))


def _together(series: Sequence[Series], at_ns: int) -> float | None:
    known = [one.at(at_ns) for one in series if one.covers(at_ns)]
    return sum(known) if known else None
