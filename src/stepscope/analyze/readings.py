"""Samples of processes, the host and GPUs → readings of the metric table, as they arrive."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import NamedTuple

from stepscope.analyze.samples import samples
from stepscope.model import names
from stepscope.model.event import Batch
from stepscope.model.watching import Reading

__all__ = ["SAMPLE_NAMES", "SampleReadings"]

_ROUND_NS = 20_000_000  # samples within it were taken together
_LEAST_NS = 50_000_000  # between two looks at a counter of CPU time, which may count in 10 ms
_GONE_NS = 1_000_000_000  # without a sample for three times its interval and this: it has ended

_CPU, _RSS, _SHARED = names.PROCESS_CPU_NS, names.PROCESS_RSS_BYTES, names.PROCESS_SHARED_BYTES
_DISK = {
    names.PROCESS_READ_BYTES: "disk_read_bytes_total",
    names.PROCESS_WRITE_BYTES: "disk_write_bytes_total",
}
_PROCESS = frozenset({_CPU, _RSS, _SHARED, *_DISK})
_HOST = frozenset({
    names.HOST_CPU_COUNT, names.HOST_CPU_BUSY_NS,
    names.HOST_MEMORY_TOTAL_BYTES, names.HOST_MEMORY_AVAILABLE_BYTES,
})  # fmt: skip
_GPU = {
    names.GPU_BUSY_SHARE: "gpu_busy_ratio",
    names.GPU_MEMORY_USED_BYTES: "gpu_memory_bytes",
    names.GPU_TEMPERATURE_CELSIUS: "gpu_temperature_celsius",
    names.GPU_POWER_WATTS: "gpu_power_watts",
    names.GPU_CLOCK_SHARE: "gpu_clock_ratio",
}
SAMPLE_NAMES = _PROCESS | _HOST | frozenset({*_GPU, names.GPU_MEMORY_TOTAL_BYTES})


class _Counter:
    """Something that is counted from the start of its process, and how quickly it grows."""

    __slots__ = ("_first", "_last", "interval_ns", "last_ns", "rate", "total")

    def __init__(self) -> None:
        self._first: tuple[int, float] | None = None
        self._last = self.total = 0.0
        self.last_ns = self.interval_ns = 0
        self.rate: float | None = None  # a nanosecond

    def update(self, time_ns: int, value: float) -> bool:
        """Whether its rate is a new one."""
        self.total += value - self._last if value >= self._last else value  # a pid used again
        is_new = False
        if self._first is None or value < self._last:
            self._first = time_ns, value
        elif time_ns - self._first[0] >= _LEAST_NS:
            self.interval_ns = time_ns - self._first[0]
            self.rate = (value - self._first[1]) / self.interval_ns
            self._first = time_ns, value
            is_new = True
        self._last, self.last_ns = value, time_ns
        return is_new

    def is_alive(self, now_ns: int) -> bool:
        return now_ns - self.last_ns <= 3 * self.interval_ns + _GONE_NS


class _Held(NamedTuple):
    """What a process holds."""

    rss_bytes: float = 0.0
    shared_bytes: float = 0.0  # of it


class _Rank:
    """The processes of one rank."""

    def __init__(self) -> None:
        self.cpu: defaultdict[int, _Counter] = defaultdict(_Counter)
        self.held: dict[int, _Held] = {}
        self.disk: defaultdict[tuple[str, int], _Counter] = defaultdict(_Counter)
        self._gone: dict[str, float] = {}  # what processes that have ended had counted
        self.touched: set[str] = set()  # names, since the round began
        self._held_now: set[int] = set()  # whose memory was sampled since then
        self.limit_bytes = 0.0  # as it was told last

    def take(self, time_ns: int, name: str, pid: int, value: float) -> None:
        self.touched.add(name)
        if name == _CPU:
            self.cpu[pid].update(time_ns, value)
            return
        if (counted := self.cpu.get(pid)) is not None:
            counted.last_ns = time_ns  # whatever is sampled of it, it has not ended
        if name in _DISK:
            self.disk[name, pid].update(time_ns, value)
        else:
            held = self.held.get(pid, _Held())
            if name == _SHARED:
                self.held[pid] = held._replace(shared_bytes=value)
            else:  # of a round, the most
                least_bytes = held.rss_bytes if pid in self._held_now else 0.0
                self.held[pid] = held._replace(rss_bytes=max(value, least_bytes))
                self._held_now.add(pid)

    def end_round(self) -> None:
        self.touched.clear()
        self._held_now.clear()

    def forget_gone(self, now_ns: int) -> None:
        for pid in [pid for pid, one in self.cpu.items() if not one.is_alive(now_ns)]:
            del self.cpu[pid]
            self.held.pop(pid, None)
            for name in _DISK:
                counted = self.disk.pop((name, pid), None)
                if counted is not None:
                    self._gone[name] = self._gone.get(name, 0.0) + counted.total

    def cpu_ratio(self) -> float | None:
        """CPUs that are kept busy; None: too early to tell."""
        known = [one.rate for one in self.cpu.values() if one.rate is not None]
        return sum(known) if known else None

    def memory_bytes(self) -> float:
        """Shared memory counts once: a loader's workers have it in common with who trains."""
        held = self.held.values()
        shared = max((one.shared_bytes for one in held), default=0.0)
        return shared + sum(max(0.0, one.rss_bytes - one.shared_bytes) for one in held)

    def totals(self) -> Iterator[tuple[str, float]]:
        for name, metric in _DISK.items():
            if name in self.touched:
                counted = sum(one.total for (of, _), one in self.disk.items() if of == name)
                yield metric, counted + self._gone.get(name, 0.0)


class SampleReadings:
    """`update` with every batch of whoever samples, in order.

    rank_of: pid → its rank; None: a process that is none of the program's.
    limit_bytes: what the program may hold; None: what the machine has.
    """

    def __init__(
        self, rank_of: Callable[[int], int | None], limit_bytes: float | None = None
    ) -> None:
        self._rank_of = rank_of
        self.limit_bytes = limit_bytes
        self._ranks: defaultdict[int, _Rank] = defaultdict(_Rank)
        self._host: dict[str, float] = {}
        self._busy = _Counter()
        self._totals: dict[int, float] = {}  # GPU → bytes of its memory
        self._used: dict[int, float] = {}  # GPU → bytes in use, until its total is known

    def update(self, batch: Batch) -> list[Reading]:
        """What is known at the end of each round of samples that the batch holds."""
        found: list[Reading] = []
        began_ns = last_ns = -1  # of the round; -1: none is open
        for time_ns, name, arg, value in samples(batch, SAMPLE_NAMES.__contains__):
            if began_ns < 0 or time_ns - began_ns > _ROUND_NS:
                found += self._close_round(last_ns)
                began_ns = time_ns
            last_ns = time_ns
            if name in _PROCESS:
                rank = self._rank_of(arg)
                if rank is not None:
                    self._ranks[rank].take(time_ns, name, arg, value)
            elif name in _HOST:
                found += self._take_host(time_ns, name, value)
            else:
                found += self._take_gpu(time_ns, name, arg, value)
        return found + self._close_round(last_ns)

    def _close_round(self, time_ns: int) -> list[Reading]:
        """Of what was sampled since the last round was closed."""
        found = []
        for number, rank in self._ranks.items():
            if rank.touched:
                rank.forget_gone(time_ns)
                figures = [*rank.totals(), *self._cpu_of(rank), *self._memory_of(rank)]
                rank.end_round()
                found += [Reading(time_ns, metric, value, rank=number) for metric, value in figures]
        return found

    def _cpu_of(self, rank: _Rank) -> Iterator[tuple[str, float]]:
        if _CPU in rank.touched and (cpus := rank.cpu_ratio()) is not None:
            yield "cpu_ratio", cpus

    def _memory_of(self, rank: _Rank) -> Iterator[tuple[str, float]]:
        """What other ranks hold is not to be had: the limit is for all of them together."""
        held_bytes = rank.memory_bytes() if _RSS in rank.touched else 0.0
        if not held_bytes:
            return
        yield "memory_bytes", held_bytes
        if self.limit_bytes:
            others = sum(one.memory_bytes() for one in self._ranks.values() if one is not rank)
            limit_bytes = max(held_bytes, self.limit_bytes - others)
            if limit_bytes != rank.limit_bytes:
                rank.limit_bytes = limit_bytes
                yield "memory_limit_bytes", limit_bytes
            yield "memory_ratio", held_bytes / limit_bytes

    def _take_host(self, time_ns: int, name: str, value: float) -> Iterator[Reading]:
        self._host[name] = value
        if name == names.HOST_CPU_BUSY_NS:
            is_new = self._busy.update(time_ns, value)
            cpus = self._host.get(names.HOST_CPU_COUNT)
            if is_new and self._busy.rate is not None and cpus:
                share = min(1.0, max(0.0, self._busy.rate / cpus))
                yield Reading(time_ns, "host_cpu_ratio", share)
        elif name == names.HOST_MEMORY_AVAILABLE_BYTES:
            total = self._host.get(names.HOST_MEMORY_TOTAL_BYTES)
            if total:
                yield Reading(time_ns, "host_memory_ratio", 1.0 - value / total)
                self.limit_bytes = self.limit_bytes or total

    def _take_gpu(self, time_ns: int, name: str, gpu: int, value: float) -> Iterator[Reading]:
        if name == names.GPU_MEMORY_TOTAL_BYTES:
            self._totals[gpu] = value
            used = self._used.pop(gpu, None)
        else:
            yield Reading(time_ns, _GPU[name], value, str(gpu))
            used = value if name == names.GPU_MEMORY_USED_BYTES else None
        if used is None:
            return
        if total := self._totals.get(gpu):
            yield Reading(time_ns, "gpu_memory_ratio", used / total, str(gpu))
        else:  # what is in use is sampled first
            self._used[gpu] = used
