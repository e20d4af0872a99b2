"""Memory over time as a table: a row for each device, moment and category."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator
from typing import NamedTuple, TextIO

from stepscope.model.memory import CATEGORIES, Memory
from stepscope.model.memory_events import MemoryEvent

__all__ = ["events_to_csv", "memory_to_csv", "memory_to_parquet"]

_EVENT = (
    "time_ns", "unix_ns", "step", "event", "allocation_type", "address", "size_bytes",
    "current_usage_bytes", "total_allocated_bytes", "total_free_bytes", "thread_id",
)  # fmt: skip


class Row(NamedTuple):
    device: str
    at_ms: float
    step: int  # -1: not known
    category: str
    bytes: int


def memory_to_csv(memory: Memory) -> bytes:
    """UTF-8, with a line of headings."""
    written = io.StringIO(newline="")
    table = csv.writer(written, lineterminator="\n")
    table.writerow(Row._fields)
    table.writerows(_rows(memory))
    return written.getvalue().encode("utf-8", "replace")


def events_to_csv(events: Iterable[MemoryEvent], file: TextIO) -> int:
    """What a program told of its memory, an event a line; how many there were."""
    table = csv.writer(file, lineterminator="\n")
    table.writerow(_EVENT)
    count = 0
    for event in events:
        kind = event.memory_event_type.value
        table.writerow(kind if name == "event" else getattr(event, name) for name in _EVENT)
        count += 1
    return count


def memory_to_parquet(memory: Memory) -> bytes:
    import pyarrow as pa
    from pyarrow import parquet

    types = (pa.string(), pa.float64(), pa.int64(), pa.string(), pa.int64())
    schema = pa.schema(list(zip(Row._fields, types, strict=True)))
    rows = [row._asdict() for row in _rows(memory)]
    sink = pa.BufferOutputStream()
    parquet.write_table(pa.Table.from_pylist(rows, schema=schema), sink)
    return bytes(sink.getvalue())


def _rows(memory: Memory) -> Iterator[Row]:
    for device in memory.devices:
        for point in device.points:
            for category, held in zip(CATEGORIES, point.bytes, strict=True):
                yield Row(device.device, point.at_ms, point.step, category, held)
