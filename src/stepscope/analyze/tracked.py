"""Rows about tracked memory → MemoryEvents, for those rows that somebody asks for."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from typing import NamedTuple

from stepscope.model import names
from stepscope.model.event import Batch
from stepscope.model.memory_events import EventRange, MemoryEvent, MemoryEventType, StackTrace

__all__ = ["Reading", "tracked_events"]

_TYPES = {
    names.TRACKED_ALLOC: MemoryEventType.ALLOCATION,
    names.TRACKED_FREE: MemoryEventType.DEALLOCATION,
    names.TRACKED_RESIZE: MemoryEventType.REALLOCATION,
    names.TRACKED_SNAPSHOT: MemoryEventType.SNAPSHOT,
}
_ADDS = frozenset({names.TRACKED_ALLOC, names.TRACKED_RESIZE})
_TAKES = frozenset({names.TRACKED_FREE, names.TRACKED_MOVED})
_COLUMNS = (
    "time_ns", "name", "arg", "value", "text", "step", "track", "cpu_start_ns", "cpu_ns",
)  # fmt: skip


class Reading(NamedTuple):
    """How rows are to be read."""

    number: int  # of the profiler whose events they are
    resolve: Callable[[int], StackTrace]  # what the number of a stack means
    unix_offset_ns: int  # from the clock of the events to the calendar


def tracked_events(batch: Batch, wanted: EventRange, reading: Reading) -> Iterator[MemoryEvent]:
    """Those that are wanted, in order, each with the totals at its time."""
    texts = batch.names
    numbers = batch.columns["name"].tolist()
    name_of = {number: texts[number] for number in set(numbers)}
    if not any(name in _TYPES for name in name_of.values()):
        return
    begins = [name_of[number] == names.TRACKED_TOTALS for number in numbers]
    last = _last_row(batch, wanted) if begins[0] and sum(begins) == 1 else batch.count
    rows = zip(*(batch.columns[column][:last].tolist() for column in _COLUMNS), strict=True)
    allocated = freed = 0
    for time_ns, number, arg, value, text, step, track, stack, profiler in rows:
        name = name_of[number]
        if profiler != reading.number or name not in names.TRACKED:
            continue
        size = int(value)
        if name in _ADDS:
            allocated += size
        elif name in _TAKES:
            freed += size
        elif name == names.TRACKED_TOTALS:
            allocated, freed = arg, size
        kind = _TYPES.get(name)
        if kind is not None and wanted.contains(time_ns, step):
            yield MemoryEvent(
                memory_event_type=kind,
                time_ns=time_ns,
                address=arg if kind is not MemoryEventType.SNAPSHOT else 0,
                size_bytes=size,
                total_allocated_bytes=allocated,
                total_free_bytes=freed,
                allocation_type=texts[text] if text else "",
                allocation_stack_trace=reading.resolve(stack) if stack > 0 else (),
                step=step,
                thread_id=track,
                unix_ns=time_ns + reading.unix_offset_ns,
            )


def _last_row(batch: Batch, wanted: EventRange) -> int:
    """Up to where rows matter, in a batch as its tracker gave it: in the order of time. Those
    before the first that is wanted are needed for the totals."""
    return bisect_right(batch.columns["time_ns"], wanted.end_ns)
