"""Events of one process → what each operation took: the blocks that the program itself named."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from stepscope.analyze.intervals import Intervals
from stepscope.analyze.resources import ResourceFold, Resources
from stepscope.analyze.samples import samples
from stepscope.analyze.series import Series
from stepscope.model import names
from stepscope.model.event import Batch, EventType, Flag

__all__ = ["OperationFold", "OperationUse", "identity_name"]

_RECENT = 16_384  # memory samples that are kept as they came
_WAITING = 4096  # runs whose last memory sample is still to come
_READ_AT_BOTH_ENDS = 3
_MEMORY = frozenset({names.PROCESS_RSS_BYTES, names.PROCESS_PEAK_RSS_BYTES})
_TOTALS = {
    names.OPERATION_CALLS: "calls",
    names.OPERATION_FAILED: "failed",
    names.OPERATION_WALL_NS: "wall_ns",
    names.OPERATION_USER_NS: "user_ns",
    names.OPERATION_SYSTEM_NS: "system_ns",
    names.OPERATION_SHORTEST_NS: "shortest_ns",
    names.OPERATION_LONGEST_NS: "longest_ns",
    names.OPERATION_FLOPS: "flops",
}
_NO_RESOURCES = Resources()


@dataclass(frozen=True)
class OperationUse:
    """Totals over all runs that have ended, exact; memory and resources as far as sampled."""

    identity: str
    calls: int = 0
    failed: int = 0
    wall_ns: int = 0
    user_ns: int = 0  # this process and the children that it waited for
    system_ns: int = 0
    shortest_ns: int = 0
    longest_ns: int = 0
    flops: int | None = None
    living_cpu_ns: float | None = None  # what children that live on used meanwhile; None: unknown
    living_system_ns: float = 0.0
    initial_rss_bytes: float | None = None
    final_rss_bytes: float | None = None
    peak_rss_bytes: float | None = None
    peak_is_exact: bool = False  # read from the kernel's mark at both ends of some run
    memory: tuple[tuple[int, float], ...] = field(default=(), repr=False)  # (time, RSS) within runs
    resources: Resources = _NO_RESOURCES
    stretches: tuple[tuple[int, int], ...] = field(default=(), repr=False)  # when it ran


class _Run(NamedTuple):
    identity: str
    start_ns: int
    end_ns: int
    read: int
    failed: bool


class _State:
    """What is known of one operation."""

    def __init__(self) -> None:
        self.totals: dict[str, int] = {}
        self.runs = self.failed = 0  # that were recorded one by one
        self.runs_wall_ns = 0
        self.intervals = Intervals()
        self.initial_rss: float | None = None
        self.final_rss: float | None = None
        self.peak = self.loose_peak = -1.0
        self.memory = Series(lambda _, later: later)  # within runs and at their ends


def identity_name(identity: str) -> str:
    """The name that the program gave.

    >>> identity_name("3/load/images")
    'load/images'
    """
    return identity.partition("/")[2]


class OperationFold:
    """`update` with every batch of the process, in order; `get` at any time."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._states: dict[str, _State] = {}
        self._resources = ResourceFold()
        self._rss = Series(lambda _, later: later, _RECENT)
        self._peaks = Series(max, _RECENT)
        self._waiting: deque[_Run] = deque()

    @property
    def identities(self) -> list[str]:
        return list(self._states)

    def update(self, batch: Batch) -> None:
        self._resources.update(batch)
        self._take_memory(batch)
        self._take_operations(batch)
        while self._waiting and (
            self._waiting[0].end_ns <= self._rss.last_ns or len(self._waiting) > _WAITING
        ):
            self._settle(self._waiting.popleft())

    def get(self, identity: str) -> OperationUse | None:
        """None: it never ran."""
        while self._waiting:
            self._settle(self._waiting.popleft())
        state = self._states.get(identity)
        if state is None:
            return None
        use = self._between(identity, state.intervals.get())
        exact = state.peak >= 0
        totals: dict[str, Any] = {
            "calls": state.runs,
            "wall_ns": state.runs_wall_ns,
            "failed": state.failed,
        }
        return replace(
            use,
            **(totals | state.totals),
            initial_rss_bytes=state.initial_rss,
            final_rss_bytes=state.final_rss,
            peak_rss_bytes=_known(state.peak) if exact else _known(state.loose_peak),
            peak_is_exact=exact,
            memory=tuple(state.memory.points(0, 1 << 62)),
        )

    def forget(self, identity: str) -> None:
        """Nobody will ask for it again."""
        self._states.pop(identity, None)
        self._waiting = deque(run for run in self._waiting if run.identity != identity)

    def between(self, identity: str, start_ns: int, end_ns: int) -> OperationUse:
        """What was used between two moments; the CPU time of this process itself is not in it."""
        use = self._between(identity, [(start_ns, end_ns)])
        rss = self._memory_between(start_ns, end_ns)
        mark = self._peaks.most(start_ns, end_ns)
        peaks = [mark, *(value for _, value in rss)]
        return replace(
            use,
            calls=0,
            wall_ns=end_ns - start_ns,
            initial_rss_bytes=rss[0][1] if rss else None,
            final_rss_bytes=rss[-1][1] if rss else None,
            peak_rss_bytes=max((peak for peak in peaks if peak is not None), default=None),
            peak_is_exact=mark is not None,
            memory=tuple(rss),
        )

    def _memory_between(self, start_ns: int, end_ns: int) -> list[tuple[int, float]]:
        """The samples, and both ends: what was sampled last before the start is what it began
        with."""
        if not self._rss.last_ns:
            return []
        inside = self._rss.points(start_ns + 1, end_ns - 1)
        return [
            (start_ns, self._rss.at(start_ns)),
            *inside,
            (end_ns, self._rss.at(end_ns)),
        ]

    # ---- taking in ----

    def _take_memory(self, batch: Batch) -> None:
        for time_ns, name, pid, value in samples(batch, _MEMORY.__contains__):
            if pid == self._pid:
                series = self._rss if name == names.PROCESS_RSS_BYTES else self._peaks
                series.update(time_ns, value)

    def _take_operations(self, batch: Batch) -> None:
        wanted = {
            number: name
            for number, name in batch.names.items()
            if name == names.OPERATION or name in _TOTALS
        }
        if not wanted:
            return
        columns = ("name", "text", "type", "time_ns", "duration_ns", "arg", "flags")
        rows = zip(*(batch.columns[column].tolist() for column in columns), strict=True)
        for number, text, kind, time_ns, lasted_ns, arg, flags in rows:
            name = wanted.get(number)
            if name is None:
                continue
            identity = batch.names[text]
            if kind == EventType.SPAN:
                failed = bool(flags & Flag.FAILED)
                self._waiting.append(_Run(identity, time_ns, time_ns + lasted_ns, arg, failed))
            elif kind == EventType.MARK and name in _TOTALS:
                self._state(identity).totals[_TOTALS[name]] = arg

    def _state(self, identity: str) -> _State:
        return self._states.setdefault(identity, _State())

    def _settle(self, run: _Run) -> None:
        """All that will be known of the memory of this run is there."""
        state = self._state(run.identity)
        state.runs += 1
        state.failed += run.failed
        state.runs_wall_ns += run.end_ns - run.start_ns
        state.intervals.add(run.start_ns, run.end_ns)
        if not self._rss.last_ns:
            return
        if state.initial_rss is None:
            state.initial_rss = self._rss.at(run.start_ns)
        state.final_rss = self._rss.at(run.end_ns)
        inside = self._rss.points(run.start_ns, run.end_ns)
        for time_ns, value in (*inside, (run.end_ns, state.final_rss)):
            state.memory.update(time_ns, value)
        seen = max(state.final_rss, self._rss.at(run.start_ns), *(value for _, value in inside))
        peak = self._peaks.most(run.start_ns, run.end_ns)
        if peak is not None and run.read == _READ_AT_BOTH_ENDS:
            state.peak = max(state.peak, peak, seen)
        state.loose_peak = max(state.loose_peak, seen)

    # ---- giving out ----

    def _between(self, identity: str, stretches: Iterable[tuple[int, int]]) -> OperationUse:
        stretches = tuple(stretches)
        living = [self._resources.living_children_cpu(*one, self._pid) for one in stretches]
        known = [one for one in living if one is not None]
        return OperationUse(
            identity,
            living_cpu_ns=sum(cpu for cpu, _ in known) if known else None,
            living_system_ns=sum(system for _, system in known),
            resources=self._resources_of(stretches),
            stretches=stretches,
        )

    def _resources_of(self, stretches: tuple[tuple[int, int], ...]) -> Resources:
        found = [
            (self._resources.get(start_ns, end_ns, {self._pid}), end_ns - start_ns)
            for start_ns, end_ns in stretches
        ]
        if not found:
            return Resources()
        longest = max(found, key=lambda one: one[1])[0]
        return longest._replace(**_means([(r._asdict(), ns) for r, ns in found]))


_MEANS = (
    "cpu_busy_share", "iowait_share", "disk_busy_share", "disk_read_bytes_per_s",
    "disk_write_bytes_per_s", "net_received_bytes_per_s", "net_sent_bytes_per_s",
    "pressure_cpu_share", "pressure_io_share", "pressure_memory_share",
)  # fmt: skip


def _means(found: list[tuple[Mapping[str, Any], int]]) -> dict[str, Any]:
    """Averages over time, of those stretches for which a figure is known."""
    means: dict[str, Any] = {}
    for name in _MEANS:
        known = [(one[name], ns) for one, ns in found if one[name] is not None]
        total_ns = sum(ns for _, ns in known)
        means[name] = sum(value * ns for value, ns in known) / total_ns if total_ns else None
    return means


def _known(value: float) -> float | None:
    return value if value >= 0 else None
