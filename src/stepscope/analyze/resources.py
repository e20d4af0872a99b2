"""Samples of the host and the processes → what the loop used while it ran. None: not measured."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from stepscope.analyze.retired import (
    RETIRED,
    RETIRED_COUNT,
    RETIRED_NS,
    AllSeries,
    Retirement,
)
from stepscope.analyze.samples import samples
from stepscope.analyze.series import Series
from stepscope.model import names
from stepscope.model.event import Batch

__all__ = ["GpuUse", "ProcessUse", "ResourceFold", "Resources"]

_COUNTERS = frozenset({
    names.PROCESS_CPU_NS, names.PROCESS_SYSTEM_CPU_NS, names.PROCESS_REAPED_CPU_NS,
    names.PROCESS_READ_BYTES, names.PROCESS_READ_CHARS,
    names.PROCESS_WRITE_BYTES, names.PROCESS_MAJOR_FAULTS, names.PROCESS_RUN_DELAY_NS,
    names.PROCESS_MAIN_DELAY_NS,
    names.PROCESS_BLOCKED_IO_NS, names.HOST_CPU_BUSY_NS, names.HOST_CPU_IOWAIT_NS,
    names.HOST_SWAP_IN_PAGES, names.HOST_DISK_READ_BYTES, names.HOST_DISK_WRITE_BYTES,
    names.HOST_DISK_BUSY_NS, names.HOST_NET_RECEIVED_BYTES, names.HOST_NET_SENT_BYTES,
    names.HOST_PRESSURE_CPU_NS,
    names.HOST_PRESSURE_IO_NS, names.HOST_PRESSURE_MEMORY_NS,
})  # fmt: skip
_PEAKS = frozenset({
    names.PROCESS_RSS_BYTES, names.PROCESS_PEAK_RSS_BYTES, names.PROCESS_THREADS,
    names.PROCESS_SHARED_BYTES, names.PROCESS_OWN_RSS_BYTES,
    names.HOST_CPU_COUNT, names.HOST_MEMORY_TOTAL_BYTES, names.GPU_MEMORY_USED_BYTES,
    names.GPU_MEMORY_TOTAL_BYTES, names.GPU_TEMPERATURE_CELSIUS, names.GPU_ALLOCATED_BYTES,
    names.GPU_RESERVED_BYTES, names.GPU_PEAK_ALLOCATED_BYTES, names.PYTHON_PEAK_BYTES,
})  # fmt: skip
_MEANS = frozenset({names.GPU_BUSY_SHARE, names.GPU_POWER_WATTS})
_LOWS = frozenset({names.HOST_MEMORY_AVAILABLE_BYTES})
_WANTED = _COUNTERS | _PEAKS | _MEANS | _LOWS
_S = 1_000_000_000


class ProcessUse(NamedTuple):
    """Some processes together. Rates are per second of the loop."""

    processes: int
    seen: float | None = None  # how many were seen at a time, on average
    cpu_cores: float | None = None  # 1.5: one and a half CPUs were kept busy
    run_delay_cores: float | None = None  # 0.5: half a thread was ready and had no CPU
    main_delay_cores: float | None = None  # the main threads' part of it
    read_bytes_per_s: float | None = None  # from a disk
    read_chars_per_s: float | None = None  # by read(), cached or not
    write_bytes_per_s: float | None = None
    major_faults_per_s: float | None = None
    blocked_io_share: float | None = None  # of the time, main threads, waiting for a disk
    peak_rss_bytes: float | None = None
    peak_shared_bytes: float | None = None  # of it, memory that others have too
    threads: float | None = None


@dataclass(frozen=True)
class GpuUse:
    """One GPU."""

    index: int
    busy_share: float | None = None
    memory_used_bytes: float | None = None  # the most
    memory_total_bytes: float | None = None
    power_watts: float | None = None
    temperature_celsius: float | None = None
    allocated_bytes: float | None = None  # torch's allocator, the most
    reserved_bytes: float | None = None
    peak_allocated_bytes: float | None = None  # where operations had the allocator's peak read


class Resources(NamedTuple):
    """What the loop used. `program`: processes that train; `children`: others below the run."""

    cpu_count: float | None = None
    program: ProcessUse = ProcessUse(0)
    children: ProcessUse = ProcessUse(0)
    cpu_busy_share: float | None = None  # of all CPUs of the host
    iowait_share: float | None = None
    memory_total_bytes: float | None = None
    memory_available_bytes: float | None = None  # the least
    swap_in_pages_per_s: float | None = None
    disk_read_bytes_per_s: float | None = None
    disk_write_bytes_per_s: float | None = None
    disk_busy_share: float | None = None  # of the time, the busiest disk
    net_received_bytes_per_s: float | None = None
    net_sent_bytes_per_s: float | None = None
    pressure_cpu_share: float | None = None
    pressure_io_share: float | None = None
    pressure_memory_share: float | None = None
    heap_peak_bytes: float | None = None  # Python objects, where tracemalloc was on
    gpus: tuple[GpuUse, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        return self._asdict() | {
            "program": self.program._asdict(),
            "children": self.children._asdict(),
            "gpus": [asdict(gpu) for gpu in self.gpus],
        }


class ResourceFold:
    """`update` with every batch of every process; `get` for the time of the loop."""

    def __init__(self) -> None:
        self._series: AllSeries = {}
        self._retirement = Retirement(self._series, _make, _COUNTERS)

    def update(self, batch: Batch) -> None:
        for time_ns, name, arg, value in samples(batch, _WANTED.__contains__):
            series = self._series.get((name, arg))
            if series is None:
                series = self._series[name, arg] = _make(name)
                if name == names.PROCESS_CPU_NS:
                    series.update(time_ns, value)
                    self._retirement.joined(arg)
            series.update(time_ns, value)

    def get(self, start_ns: int, end_ns: int, program_pids: Collection[int]) -> Resources:
        """What was used between two moments; `program_pids`: the processes that train."""
        view = _View(self._series, start_ns, end_ns)
        pids = {arg for name, arg in self._series if name == names.PROCESS_CPU_NS}
        cpu_count = view.largest(names.HOST_CPU_COUNT, (0,))
        busy, iowait = view.rate(names.HOST_CPU_BUSY_NS), view.rate(names.HOST_CPU_IOWAIT_NS)
        return Resources(
            cpu_count=cpu_count,
            program=view.processes(pids & set(program_pids)),
            children=view.children(view.alive(pids - set(program_pids)), program_pids),
            cpu_busy_share=_share(busy, cpu_count),
            iowait_share=_share(iowait, cpu_count),
            memory_total_bytes=view.largest(names.HOST_MEMORY_TOTAL_BYTES, (0,)),
            memory_available_bytes=view.smallest(names.HOST_MEMORY_AVAILABLE_BYTES),
            swap_in_pages_per_s=view.rate(names.HOST_SWAP_IN_PAGES),
            disk_read_bytes_per_s=view.rate(names.HOST_DISK_READ_BYTES),
            disk_write_bytes_per_s=view.rate(names.HOST_DISK_WRITE_BYTES),
            disk_busy_share=view.busiest_disk(),
            net_received_bytes_per_s=view.rate(names.HOST_NET_RECEIVED_BYTES),
            net_sent_bytes_per_s=view.rate(names.HOST_NET_SENT_BYTES),
            pressure_cpu_share=_share(view.rate(names.HOST_PRESSURE_CPU_NS), 1.0),
            pressure_io_share=_share(view.rate(names.HOST_PRESSURE_IO_NS), 1.0),
            pressure_memory_share=_share(view.rate(names.HOST_PRESSURE_MEMORY_NS), 1.0),
            heap_peak_bytes=view.highest(names.PYTHON_PEAK_BYTES, 0),
            gpus=view.gpus(),
        )

    def series(self, name: str) -> dict[int, Series]:
        """The samples of a name, by process, GPU, …; without processes that ended long ago."""
        found = self._series.items()
        return {arg: series for (of, arg), series in found if of == name and arg != RETIRED}

    def living_children_cpu(
        self, start_ns: int, end_ns: int, parent: int
    ) -> tuple[float, float] | None:
        """What the children that had not ended yet add to the CPU time between two moments, and
        the system's part of it; None: it was not sampled.

        Those that have ended are in the parent's own figures, with all that they ever used: what
        they had used before the first moment is taken off here.
        """
        own = self._of(names.PROCESS_CPU_NS, parent, own=True)
        if not any(series.covers(start_ns) for series in own):
            return None
        # Later than that nobody looked: a child without a sample there has not ended.
        end_ns = min(end_ns, max(series.last_ns for series in own))
        cpu = self._of(names.PROCESS_CPU_NS, parent, own=False)
        system = self._of(names.PROCESS_SYSTEM_CPU_NS, parent, own=False)
        return _gained(cpu, start_ns, end_ns), _gained(system, start_ns, end_ns)

    def _of(self, name: str, parent: int, *, own: bool) -> list[Series]:
        found = self.series(name).items()
        return [series for arg, series in found if (arg == parent) == own]


class _View:
    """The series within a window of time."""

    def __init__(self, series: AllSeries, start_ns: int, end_ns: int) -> None:
        self._series, self._start, self._end = series, start_ns, end_ns
        sampled = [one.sampled(start_ns, end_ns) for one in series.values()]
        self._sampled_ns = max((b for _, b in sampled), default=0) - min(
            (a for a, _ in sampled), default=0
        )

    def rate(self, name: str, args: Iterable[int] = (0,), from_zero: bool = False) -> float | None:
        """Growth per second of the window, over several counters together."""
        grown = [s.growth(self._start, self._end, from_zero) for s in self._of(name, args)]
        known = [growth for growth in grown if growth is not None]
        return sum(known) * _S / self._sampled_ns if known and self._sampled_ns > 0 else None

    def largest(self, name: str, args: Iterable[int]) -> float | None:
        return max(self._within(name, args), default=None)

    def highest(self, name: str, arg: int) -> float | None:
        """Of marks that are reset when they are read: the one that is read after the end of the
        window tells of the window too."""
        marks = [series.most(self._start, self._end) for series in self._of(name, (arg,))]
        return max((mark for mark in marks if mark is not None), default=None)

    def smallest(self, name: str) -> float | None:
        return min(self._within(name, (0,)), default=None)

    def mean(self, name: str, arg: int) -> float | None:
        values = self._within(name, (arg,))
        return sum(values) / len(values) if values else None

    def busiest_disk(self) -> float | None:
        disks = [arg for name, arg in self._series if name == names.HOST_DISK_BUSY_NS]
        rates = [self.rate(names.HOST_DISK_BUSY_NS, (disk,)) for disk in disks]
        return max((s for rate in rates if (s := _share(rate, 1.0)) is not None), default=None)

    def alive(self, pids: Collection[int]) -> list[int]:
        """Those that were there at some time of the window."""
        cpu = {pid: self._series[names.PROCESS_CPU_NS, pid] for pid in pids}
        return [pid for pid, series in cpu.items() if series.overlaps(self._start, self._end)]

    def children(self, alive: Collection[int], parents: Collection[int]) -> ProcessUse:
        """Processes that come and go. The CPU time of those that ended is their parents' to tell:
        many live too short to be sampled."""
        found = self.processes(alive)
        reaped = list(self._of(names.PROCESS_REAPED_CPU_NS, parents))
        if not reaped or not self._sampled_ns or reaped[0].is_sparse(self._start, self._end):
            return found
        cpu = list(self._of(names.PROCESS_CPU_NS, alive))
        grown = [one.growth(self._start, self._end, from_zero=False) for one in reaped]
        grown_ns = sum(one for one in grown if one is not None)
        grown_ns += sum(one.at(self._end) for one in cpu if one.covers(self._end))
        grown_ns -= sum(one.at(self._start) for one in cpu if one.covers(self._start))
        return found._replace(cpu_cores=max(0.0, grown_ns / self._sampled_ns), seen=None)

    def processes(self, alive: Collection[int]) -> ProcessUse:
        if not alive:
            return ProcessUse(0)
        cpu = self.rate(names.PROCESS_CPU_NS, alive, True)
        delay = self.rate(names.PROCESS_RUN_DELAY_NS, alive, True)
        main_delay = self.rate(names.PROCESS_MAIN_DELAY_NS, alive, True)
        blocked = self.rate(names.PROCESS_BLOCKED_IO_NS, alive, True)
        peaks = [
            self.largest(names.PROCESS_PEAK_RSS_BYTES, (pid,))
            or self.largest(names.PROCESS_RSS_BYTES, (pid,))
            for pid in alive
        ]
        known = [peak for peak in peaks if peak is not None]
        return ProcessUse(
            processes=len(alive) + self._retired(alive, RETIRED_COUNT, 1),
            seen=self._seen(alive),
            cpu_cores=None if cpu is None else cpu / _S,
            run_delay_cores=None if delay is None else delay / _S,
            main_delay_cores=None if main_delay is None else main_delay / _S,
            read_bytes_per_s=self.rate(names.PROCESS_READ_BYTES, alive, True),
            read_chars_per_s=self.rate(names.PROCESS_READ_CHARS, alive, True),
            write_bytes_per_s=self.rate(names.PROCESS_WRITE_BYTES, alive, True),
            major_faults_per_s=self.rate(names.PROCESS_MAJOR_FAULTS, alive, True),
            blocked_io_share=None if blocked is None else min(1.0, blocked / _S / len(alive)),
            peak_rss_bytes=max(known, default=None),
            peak_shared_bytes=self.largest(names.PROCESS_SHARED_BYTES, alive),
            threads=self.largest(names.PROCESS_THREADS, alive),
        )

    def _seen(self, pids: Collection[int]) -> float | None:
        known = [pid for pid in pids if pid != RETIRED]
        spans = [s.sampled(self._start, self._end) for s in self._of(names.PROCESS_CPU_NS, known)]
        lived_ns = sum(last - first for first, last in spans)
        lived_ns += self._retired(pids, RETIRED_NS, 0)
        return lived_ns / self._sampled_ns if self._sampled_ns > 0 else None

    def _retired(self, pids: Collection[int], name: str, less: int) -> int:
        """What processes that ended long ago add, beyond the `less` that was counted already."""
        series = self._series.get((name, RETIRED))
        if RETIRED not in pids or series is None:
            return 0
        grown = series.growth(self._start, self._end, from_zero=True)
        return round(grown or 0.0) - less

    def gpus(self) -> tuple[GpuUse, ...]:
        indexes = sorted({arg for name, arg in self._series if name.startswith("gpu.")})
        return tuple(
            GpuUse(
                index=index,
                busy_share=self.mean(names.GPU_BUSY_SHARE, index),
                memory_used_bytes=self.largest(names.GPU_MEMORY_USED_BYTES, (index,)),
                memory_total_bytes=self.largest(names.GPU_MEMORY_TOTAL_BYTES, (index,)),
                power_watts=self.mean(names.GPU_POWER_WATTS, index),
                temperature_celsius=self.largest(names.GPU_TEMPERATURE_CELSIUS, (index,)),
                allocated_bytes=self.largest(names.GPU_ALLOCATED_BYTES, (index,)),
                reserved_bytes=self.largest(names.GPU_RESERVED_BYTES, (index,)),
                peak_allocated_bytes=self.highest(names.GPU_PEAK_ALLOCATED_BYTES, index),
            )
            for index in indexes
        )

    def _of(self, name: str, args: Iterable[int]) -> Iterable[Series]:
        return [self._series[name, arg] for arg in args if (name, arg) in self._series]

    def _within(self, name: str, args: Iterable[int]) -> list[float]:
        return [v for series in self._of(name, args) for v in series.within(self._start, self._end)]


def _gained(series: Iterable[Series], start_ns: int, end_ns: int) -> float:
    """By counters that may begin and end: those that are there at the end, less at the start."""
    gained = 0.0
    for one in series:
        gained += one.at(end_ns) if one.covers(end_ns) else 0.0
        gained -= one.at(start_ns) if one.covers(start_ns) else 0.0
    return gained


def _share(rate_ns_per_s: float | None, of: float | None) -> float | None:
    """A rate in ns per second as a share of so many CPUs."""
    return None if rate_ns_per_s is None or not of else min(1.0, rate_ns_per_s / _S / of)


def _make(name: str) -> Series:
    return Series(_joiner(name))


def _joiner(name: str) -> Any:
    if name in _COUNTERS:
        return lambda _, later: later
    if name in _MEANS:
        return lambda a, b: (a + b) / 2
    return min if name in _LOWS else max
