"""Memory over time as a table: a row for each device, moment and category."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple, TextIO

from stepscope.model.memory import CATEGORIES, Memory
from stepscope.model.memory_events import MemoryEvent
from stepscope.printer import make_visible

__all__ = ["events_to_csv", "memory_to_csv", "memory_to_parquet"]

_EVENT = (
    "time_ns", "unix_ns", "step", "event", "allocation_type", "address", "size_bytes",
    "current_usage_bytes", "total_allocated_bytes", "total_free_bytes", "thread_id",
)  # fmt: skip
# How a formula may begin in Excel, LibreOffice or Google Sheets, the wide forms included.
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\n", "＝", "＋", "－", "＠")


class Row(NamedTuple):
    device: str
    at_ms: float
    step: int  # -1: not known
    category: str
    bytes: int


def memory_to_csv(memory: Memory) -> bytes:
    """UTF-8, with a line of headings."""
    written = io.StringIO(newline="")
    _write_csv(written, Row._fields, _rows(memory))
    return written.getvalue().encode("utf-8", "replace")


def events_to_csv(events: Iterable[MemoryEvent], file: TextIO) -> int:
    """What a program told of its memory, an event a line; how many there were."""
    return _write_csv(file, _EVENT, map(_event_row, events))


def _event_row(event: MemoryEvent) -> list[Any]:
    kind = event.memory_event_type.value
    return [kind if name == "event" else getattr(event, name) for name in _EVENT]


def _write_csv(file: TextIO, headings: Sequence[str], rows: Iterable[Sequence[Any]]) -> int:
    """Write all rows; returns how many there were."""
    table = csv.writer(file, lineterminator="\n")
    table.writerow(headings)
    count = 0
    for row in rows:
        table.writerow([_inert(cell) for cell in row])
        count += 1
    return count


def _inert(cell: Any) -> Any:
    """A spreadsheet would run a text that begins like a formula, so it gets a leading quote. A
    carriage return, which csv does not quote, would begin a new row.

    >>> _inert("=1+1"), _inert(-3)
    ("'=1+1", -3)
    """
    if not isinstance(cell, str):
        return cell
    text = make_visible(cell)
    return f"'{text}" if text.startswith(_FORMULA) else text


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
