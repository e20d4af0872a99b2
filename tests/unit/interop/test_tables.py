from __future__ import annotations

import csv
import io

import pyarrow as pa
import pytest
from pyarrow import parquet

from stepscope.interop.tables import events_to_csv, memory_to_csv, memory_to_parquet
from stepscope.model.memory import CATEGORIES, DeviceMemory, Memory, MemoryPoint, Peak
from stepscope.model.memory_events import MemoryEvent, MemoryEventType

POINTS = (
    MemoryPoint(0.0, 3, (1, 2, 3, 4, 5, 6, 7)),
    MemoryPoint(1.5, 4, (0, 0, 0, 1 << 40, 0, 0, 0)),
)
MEMORY = Memory("run", devices=(DeviceMemory("cuda:0", Peak(1), POINTS),))


def test_csv_has_a_row_for_each_moment_and_category() -> None:
    rows = list(csv.DictReader(io.StringIO(memory_to_csv(MEMORY).decode())))
    assert len(rows) == 2 * len(CATEGORIES)
    assert rows[1] == {
        "device": "cuda:0",
        "at_ms": "0.0",
        "step": "3",
        "category": "optimizer state",
        "bytes": "2",
    }
    assert rows[10]["bytes"] == str(1 << 40)


def test_parquet_has_the_same_rows_with_types() -> None:
    table = parquet.read_table(pa.BufferReader(memory_to_parquet(MEMORY)))
    assert table.schema.names == ["device", "at_ms", "step", "category", "bytes"]
    assert [str(one) for one in table.schema.types] == [
        "string",
        "double",
        "int64",
        "string",
        "int64",
    ]
    assert table.num_rows == 14
    assert table.column("category").to_pylist()[:7] == list(CATEGORIES)
    assert sum(table.column("bytes").to_pylist()) == 28 + (1 << 40)


def test_nothing_makes_tables_without_rows() -> None:
    assert memory_to_csv(Memory("run")) == b"device,at_ms,step,category,bytes\n"
    assert parquet.read_table(pa.BufferReader(memory_to_parquet(Memory("run")))).num_rows == 0


FORMULAS = ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\n=1", "＝1"]


@pytest.mark.parametrize("text", FORMULAS)
def test_a_text_that_a_spreadsheet_would_run_gets_a_quote(text: str) -> None:
    devices = (DeviceMemory(text, Peak(1), (MemoryPoint(-1.5, -1, (-2, 2, 3, 4, 5, 6, 7)),)),)
    written = memory_to_csv(Memory("run", devices=devices)).decode()
    _, row, *_ = csv.reader(io.StringIO(written, newline=""))
    assert row == [f"'{text}", "-1.5", "-1", CATEGORIES[0], "-2"]


@pytest.mark.parametrize("text", FORMULAS)
def test_so_does_what_a_program_calls_its_allocations(text: str) -> None:
    file = io.StringIO(newline="")
    event = MemoryEvent(MemoryEventType.ALLOCATION, time_ns=7, size_bytes=10, allocation_type=text)
    assert events_to_csv([event], file) == 1
    (row,) = csv.DictReader(io.StringIO(file.getvalue(), newline=""))
    assert row["allocation_type"] == f"'{text}"
    assert (row["time_ns"], row["event"], row["size_bytes"]) == ("7", "allocation", "10")


def test_a_carriage_return_does_not_begin_a_row() -> None:
    devices = (DeviceMemory("\r=1", Peak(1), POINTS[:1]),)
    written = memory_to_csv(Memory("run", devices=devices)).decode()
    rows = list(csv.reader(io.StringIO(written, newline="")))
    assert len(rows) == 1 + len(CATEGORIES)
    assert rows[1][0] == r"\u000d=1"
