"""Time by stack, in windows: so that what lies outside of a loop can be left out later."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from stepscope.analyze.stack_phases import Sample

__all__ = ["StackWindows"]

WINDOWS = 64  # then they become twice as long
FIRST_NS = 250_000_000
STACKS = 4096  # in a window; then only where the time went is kept, not the stack
ENTRIES = 16_384  # in all windows together; then there are fewer of them

# tag, stack, in C
_Key: TypeAlias = tuple[str, int, bool]


class StackWindows:
    """`count` samples; `between` two moments what they add up to. A window that lies there only in
    part counts in that part."""

    def __init__(self) -> None:
        self._window_ns = FIRST_NS
        self._windows: dict[int, dict[_Key, list[int]]] = {}
        self._entries = 0
        self.tags: set[str] = set()

    def count(self, tag: str, sample: Sample) -> None:
        self.tags.add(tag)
        spent = self._windows.setdefault(sample.time_ns // self._window_ns, {})
        before = len(spent)
        _add(spent, (tag, sample.stack, sample.native), (sample.ns, 1))
        self._entries += len(spent) - before
        while len(self._windows) > WINDOWS or (self._entries > ENTRIES and len(self._windows) > 2):
            self._join()

    def _join(self) -> None:
        """Two windows become one."""
        joined: dict[int, dict[_Key, list[int]]] = {}
        for number, spent in self._windows.items():
            into = joined.setdefault(number // 2, {})
            for key, times in spent.items():
                _add(into, key, (times[0], times[1]))
        self._windows, self._window_ns = joined, 2 * self._window_ns
        self._entries = sum(map(len, joined.values()))

    def between(self, start_ns: int, end_ns: int) -> Iterator[tuple[_Key, tuple[int, int]]]:
        for number, spent in self._windows.items():
            begin_ns = number * self._window_ns
            inside_ns = min(end_ns, begin_ns + self._window_ns) - max(start_ns, begin_ns)
            if inside_ns <= 0:
                continue
            part = inside_ns / self._window_ns
            for key, (ns, samples) in spent.items():
                yield key, (round(ns * part), round(samples * part))


def _add(spent: dict[_Key, list[int]], key: _Key, times: tuple[int, int]) -> None:
    if len(spent) >= STACKS and key not in spent:
        key = (key[0], 0, key[2])
    sums = spent.setdefault(key, [0, 0])
    sums[0] += times[0]
    sums[1] += times[1]
