"""Samples of this process and its machine → how full they were over time, while it is recorded."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import NamedTuple

from stepscope.analyze.series import Series
from stepscope.model import names
from stepscope.model.event import Batch
from stepscope.model.process import ProcessInfo

__all__ = ["Crossing", "GaugeFold", "crossing"]

_WANTED = frozenset({
    names.PROCESS_RSS_BYTES, names.PROCESS_READ_BYTES, names.PROCESS_WRITE_BYTES,
    names.HOST_MEMORY_TOTAL_BYTES, names.HOST_MEMORY_AVAILABLE_BYTES,
    names.HOST_CPU_COUNT, names.HOST_CPU_BUSY_NS,
    names.GPU_MEMORY_USED_BYTES, names.GPU_MEMORY_TOTAL_BYTES,
})  # fmt: skip
_LEAST_NS = 50_000_000  # the kernel counts CPU time in ticks of 10 ms


class Crossing(NamedTuple):
    """How far and how long a threshold was passed. Shares are 0 to 1."""

    threshold: float
    times: int = 0  # it was crossed
    peak: float = 0.0
    above_ns: int = 0
    watched_ns: int = 0

    @property
    def far(self) -> float:
        """0: it was just reached; 1: nothing was left."""
        room = 1.0 - self.threshold
        return min(1.0, (self.peak - self.threshold) / room) if room > 0 else 1.0

    @property
    def long(self) -> float:
        """Share of the time above it."""
        return min(1.0, self.above_ns / self.watched_ns) if self.watched_ns else 0.0


class GaugeFold:
    """Follows a session. Seconds count from `start_ns`; without a sample, lists are empty."""

    def __init__(self, start_ns: int) -> None:
        self.start_ns = start_ns
        self.after_fork()

    def after_fork(self) -> None:
        """A forked child has nothing of its parent's."""
        self._pid = os.getpid()
        self._last: dict[tuple[str, int], float] = {}
        self._busy: tuple[int, float] | None = None
        self.memory = Series(max)  # share of the machine's memory that is taken
        self.rss = Series(max)  # bytes of this process
        self.cpu = Series(lambda a, b: (a + b) / 2)  # share of the CPUs that were busy
        self.read = Series(lambda _, later: later)  # bytes, since the process began
        self.written = Series(lambda _, later: later)
        self._gpus: dict[int, Series] = {}

    def update(self, process: ProcessInfo, batches: Iterable[Batch]) -> None:
        if process.pid != self._pid:
            return
        for batch in batches:
            self._take(batch)

    def _take(self, batch: Batch) -> None:
        wanted = {number: name for number, name in batch.names.items() if name in _WANTED}
        columns = ("time_ns", "name", "arg", "value")
        rows = zip(*(batch.columns[column].tolist() for column in columns), strict=True)
        for time_ns, number, arg, value in sorted(row for row in rows if row[1] in wanted):
            if time_ns >= self.start_ns:
                self._one(time_ns, wanted[number], arg, value)

    def _one(self, time_ns: int, name: str, arg: int, value: float) -> None:
        self._last[name, arg] = value
        own = {
            names.PROCESS_RSS_BYTES: self.rss,
            names.PROCESS_READ_BYTES: self.read,
            names.PROCESS_WRITE_BYTES: self.written,
        }.get(name)
        if own is not None:
            if arg == self._pid:
                own.update(time_ns, value)
        elif name == names.HOST_MEMORY_AVAILABLE_BYTES:
            total = self._last.get((names.HOST_MEMORY_TOTAL_BYTES, 0))
            if total:
                self.memory.update(time_ns, 1.0 - value / total)
        elif name == names.GPU_MEMORY_TOTAL_BYTES:
            used = self._last.get((names.GPU_MEMORY_USED_BYTES, arg))
            if value and used is not None:
                self._gpus.setdefault(arg, Series(max)).update(time_ns, used / value)
        elif name == names.HOST_CPU_BUSY_NS:
            self._take_cpu(time_ns, value)

    def _take_cpu(self, time_ns: int, busy_ns: float) -> None:
        cpus = self._last.get((names.HOST_CPU_COUNT, 0))
        if self._busy is None or not cpus:
            self._busy = time_ns, busy_ns
            return
        passed_ns = time_ns - self._busy[0]
        if passed_ns >= _LEAST_NS:
            share = (busy_ns - self._busy[1]) / passed_ns / cpus
            self.cpu.update(time_ns, min(1.0, max(0.0, share)))
            self._busy = time_ns, busy_ns

    @property
    def gpu(self) -> Series:
        """Share of the fullest GPU's memory; empty without a GPU."""
        fullest = max(
            self._gpus.values(), key=lambda one: max(_values(one), default=0.0), default=None
        )
        return Series(max) if fullest is None else fullest

    def seconds(self, series: Series, scale: float = 1.0) -> dict[float, float]:
        """Seconds since the start → value."""
        points = series.points(0, 1 << 62)
        return {(time_ns - self.start_ns) / 1e9: value * scale for time_ns, value in points}


def crossing(series: Series, threshold: float) -> Crossing:
    """Of a share that was sampled: between two samples above the threshold it was above it."""
    points = series.points(0, 1 << 62)
    if not points:
        return Crossing(threshold)
    times = above_ns = 0
    before_ns, was_above = points[0][0], False
    for time_ns, value in points:
        is_above = value >= threshold
        times += is_above and not was_above
        above_ns += (time_ns - before_ns) if is_above and was_above else 0
        before_ns, was_above = time_ns, is_above
    watched_ns = points[-1][0] - points[0][0]
    return Crossing(threshold, times, max(value for _, value in points), above_ns, watched_ns)


def _values(series: Series) -> list[float]:
    return [value for _, value in series.points(0, 1 << 62)]
