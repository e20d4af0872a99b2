"""Processes that ended long ago, as one: loaders may start thousands of workers in a run."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import TypeAlias

from stepscope.analyze.series import Series
from stepscope.model import names

__all__ = ["RETIRED", "RETIRED_COUNT", "RETIRED_NS", "AllSeries", "Retirement"]

AllSeries: TypeAlias = dict[tuple[str, int], Series]  # by name, and by pid where it is a process's

RETIRED = -1  # the pid of all of them together
RETIRED_COUNT, RETIRED_NS = "retired.processes", "retired.lived_ns"  # cumulative, like the rest
KEPT = 64  # processes that are known one by one, and all that are still there
SLACK = 16
FIRST = 16  # they began the run: the ranks are among them
SILENT_NS = 60_000_000_000  # not sampled for so long: it is gone


class Retirement:
    """Takes the series of processes that are gone out of those of a run, and keeps their sums.

    counters: names whose last value adds up; of others the largest stays.
    """

    def __init__(
        self, series: AllSeries, make: Callable[[str], Series], counters: Collection[str]
    ) -> None:
        self._series, self._make, self._counters = series, make, counters
        self._pids: dict[int, None] = {}  # in the order in which they were first seen
        self._sums: dict[str, float] = {}
        self._last_ns = 0

    def joined(self, pid: int) -> None:
        """A process was sampled for the first time."""
        self._pids[pid] = None
        if len(self._pids) >= KEPT + SLACK:
            self._retire(len(self._pids) - KEPT)

    def _retire(self, most: int) -> None:
        last_ns = {pid: self._of(pid).last_ns for pid in list(self._pids)[FIRST:]}
        newest_ns = max(last_ns.values(), default=0)
        silent = [pid for pid, last in last_ns.items() if last < newest_ns - SILENT_NS]
        for pid in sorted(silent, key=last_ns.__getitem__)[:most]:
            self._add_up(pid)

    def _of(self, pid: int) -> Series:
        return self._series[names.PROCESS_CPU_NS, pid]

    def _add_up(self, pid: int) -> None:
        del self._pids[pid]
        lived = self._of(pid)
        self._last_ns = max(self._last_ns + 1, lived.last_ns)
        self._count(RETIRED_COUNT, 1.0)
        self._count(RETIRED_NS, float(lived.last_ns - lived.sampled(0, lived.last_ns)[0]))
        for name in _process_names(self._series, pid):
            series = self._series.pop((name, pid))
            if name in self._counters:
                self._count(name, series.at(series.last_ns))
            else:
                self._update(name, max(series.within(0, series.last_ns)))

    def _count(self, name: str, more: float) -> None:
        self._sums[name] = self._sums.get(name, 0.0) + more
        self._update(name, self._sums[name])

    def _update(self, name: str, value: float) -> None:
        series = self._series.get((name, RETIRED))
        if series is None:
            series = self._series[name, RETIRED] = self._make(name)
        series.update(self._last_ns, value)


def _process_names(series: Iterable[tuple[str, int]], pid: int) -> list[str]:
    return [name for name, arg in series if arg == pid and name.startswith("process.")]
