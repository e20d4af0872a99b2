"""What is known of one loader, from its workers and from the process that they work for."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from heapq import heappush, heappushpop
from math import log2
from typing import Any, NamedTuple

from stepscope.analyze.pipeline_time import TimedSums
from stepscope.model.details import SlowSample

__all__ = ["LoaderKey", "LoaderSums", "sample_bin"]

_SLOWEST = 256
_STARTS = 4096
_BINS = 8  # of sample times in a doubling


class LoaderKey(NamedTuple):
    """Two loaders with the same key are seen as one."""

    rank: int
    pid: int  # of the process that iterates it
    workers: int
    dataset: str
    file: str
    line: int

    @classmethod
    def of_settings(cls, rank: int, pid: int, settings: Mapping[str, Any]) -> LoaderKey:
        """From what a `loader` mark told."""
        return cls(
            rank,
            pid,
            _number(settings.get("workers")),
            str(settings.get("dataset", "")),
            str(settings.get("file", "")),
            _number(settings.get("line")),
        )

    @classmethod
    def of_worker(cls, rank: int, parent: int, about: Mapping[str, Any]) -> LoaderKey:
        """From what a `worker` mark told."""
        loader = about.get("loader")
        workers = loader.get("workers") if isinstance(loader, dict) else 0
        pid = _number(about.get("parent")) or parent
        return cls.of_settings(rank, pid, {**about, "workers": workers})

    def is_like(self, other: LoaderKey) -> bool:
        """The same loader, in another rank perhaps."""
        return self[2:] == other[2:]


class LoaderSums:
    """Spans by what they were, in time; and what has to be kept one by one."""

    def __init__(self) -> None:
        self.sums = TimedSums()
        self._slow: list[tuple[int, int, int, int]] = []  # duration, end, item, worker
        self.starts: list[int] = []  # when the first of its workers was started

    def add(self, key: Hashable, end_ns: int, wall_ns: int, cpu_ns: int, weight: float) -> None:
        self.sums.add(end_ns, key, wall_ns, cpu_ns, weight)

    def add_sample(self, end_ns: int, wall_ns: int, item: int, weight: float, worker: int) -> None:
        self.sums.add(end_ns, ("sample", sample_bin(wall_ns)), wall_ns, -1, weight)
        entry = (wall_ns, end_ns, item, worker)
        if len(self._slow) < _SLOWEST:
            heappush(self._slow, entry)
        elif entry > self._slow[0]:
            heappushpop(self._slow, entry)

    def add_batch(self, end_ns: int, wall_ns: int) -> None:
        self.sums.add(end_ns, ("batch", sample_bin(wall_ns)), wall_ns)

    def add_start(self, began_ns: int) -> None:
        if len(self.starts) < _STARTS:
            self.starts.append(began_ns)

    def slowest(self, windows: Sequence[tuple[int, int]]) -> list[SlowSample]:
        """The slowest first; an item that comes again and again is told once."""
        found: dict[int, SlowSample] = {}
        for place, (wall_ns, end_ns, item, worker) in enumerate(sorted(self._slow, reverse=True)):
            if any(start <= end_ns <= end for start, end in windows):
                key = item if item >= 0 else -1 - place
                found.setdefault(key, SlowSample(item, wall_ns / 1e6, worker))
        return list(found.values())


def sample_bin(wall_ns: int) -> int:
    """Samples whose times are within 9 % of each other are counted together."""
    return round(_BINS * log2(max(wall_ns, 1)))


def _number(value: Any) -> int:
    return value if isinstance(value, int) else 0
