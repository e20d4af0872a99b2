from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stepscope.errors import FormatError
from stepscope.model.event import Batch
from stepscope.model.process import ProcessInfo
from stepscope.store.arrow import ArrowReader, ArrowWriter, Position, to_batch, to_record_batch
from stepscope.store.frames import FramesReader
from tests.unit.store.by_hand import NAMES, events, header, names


@pytest.fixture
def recorded(tmp_path: Path) -> tuple[ProcessInfo, list[Batch]]:
    path = tmp_path / "41-1.0000.frames"
    path.write_bytes(header() + names(NAMES) + events([1, 2], 100, text=3) + events([2, 1], 200))
    reader = FramesReader(path)
    batches = reader.read_new()
    assert reader.process is not None
    return reader.process, batches


def stream(path: Path, recorded: tuple[ProcessInfo, list[Batch]], *, end: bool = True) -> Path:
    process, batches = recorded
    writer = ArrowWriter(path, process)
    for number, batch in enumerate(batches):
        writer.write([batch], Position(0, 1000 + number))
    if end:
        writer.close()
    return path


def rows_of(reader: ArrowReader) -> list[tuple[object, ...]]:
    return [row for batch in reader.record_batches() for row in to_batch(batch).rows()]


def test_a_stream_gives_back_what_was_written(
    tmp_path: Path, recorded: tuple[ProcessInfo, list[Batch]]
) -> None:
    reader = ArrowReader(stream(tmp_path / "a.arrows", recorded))
    assert rows_of(reader) == [row for batch in recorded[1] for row in batch.rows()]
    assert reader.process == recorded[0]
    assert reader.covers == Position(0, 1001)
    assert not reader.torn


def test_a_stream_may_lie_in_a_folder_whose_name_is_no_utf_8(
    tmp_path: Path, recorded: tuple[ProcessInfo, list[Batch]]
) -> None:
    folder = tmp_path / os.fsdecode(b"run-\xff")
    folder.mkdir()
    reader = ArrowReader(stream(folder / "a.arrows", recorded))
    assert rows_of(reader) == [row for batch in recorded[1] for row in batch.rows()]


def test_a_single_batch_is_not_copied(recorded: tuple[ProcessInfo, list[Batch]]) -> None:
    batch = recorded[1][0]
    column = to_record_batch([batch]).column("time_ns")
    assert column.buffers()[1].address == pa.py_buffer(batch.columns["time_ns"]).address


def test_batches_are_joined_in_their_order(recorded: tuple[ProcessInfo, list[Batch]]) -> None:
    joined = to_record_batch(recorded[1])
    assert joined.column("time_ns").to_pylist() == [100, 101, 200, 201]
    assert joined.column("name").to_pylist() == ["forward", "backward", "backward", "forward"]
    assert joined.column("text").to_pylist() == ["why", "why", "", ""]


def test_a_stream_without_its_end_is_read_to_the_last_batch(
    tmp_path: Path, recorded: tuple[ProcessInfo, list[Batch]]
) -> None:
    assert len(rows_of(ArrowReader(stream(tmp_path / "a.arrows", recorded, end=False)))) == 4


def test_a_stream_cut_anywhere_gives_complete_batches_only(
    tmp_path: Path, recorded: tuple[ProcessInfo, list[Batch]]
) -> None:
    content = stream(tmp_path / "a.arrows", recorded).read_bytes()
    seen = set()
    for end in range(0, len(content), 7):
        path = tmp_path / "cut.arrows"
        path.write_bytes(content[:end])
        seen.add(len(rows_of(ArrowReader(path))))
    assert seen == {0, 2, 4}


@settings(
    max_examples=200,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(flips=st.lists(st.tuples(st.integers(0), st.integers(1, 255)), min_size=1, max_size=5))
def test_mutated_bytes_give_fewer_rows_or_a_format_error(
    tmp_path: Path,
    recorded: tuple[ProcessInfo, list[Batch]],
    flips: list[tuple[int, int]],
) -> None:
    path = stream(tmp_path / "mutated.arrows", recorded)
    content = bytearray(path.read_bytes())
    for position, change in flips:
        content[position % len(content)] ^= change
    path.write_bytes(content)
    try:
        assert len(rows_of(ArrowReader(path))) <= 4
    except FormatError:
        pass


@pytest.mark.parametrize("content", [b"hello world, not Arrow", b"ARROW1\0\0" + b"\0" * 80])
def test_a_foreign_file_is_refused_with_what_to_do(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.arrows"
    path.write_bytes(content)
    with pytest.raises(FormatError, match="not a stepscope segment: move it"):
        ArrowReader(path)


def foreign_stream(path: Path, metadata: dict[str, str]) -> Path:
    schema = pa.schema([("x", pa.int64())], metadata=metadata)
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, schema):
        pass
    return path


def test_an_arrow_stream_of_someone_else_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="not a stepscope segment"):
        ArrowReader(foreign_stream(tmp_path / "a.arrows", {}))


def test_a_newer_schema_asks_for_an_upgrade(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"schema 7.*upgrade"):
        ArrowReader(foreign_stream(tmp_path / "a.arrows", {"stepscope.schema": "7"}))


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
def test_a_full_disk_is_an_oserror(recorded: tuple[ProcessInfo, list[Batch]]) -> None:
    with pytest.raises(OSError):
        stream(Path("/dev/full"), recorded)


def test_the_launcher_has_arrow_without_numpy(
    tmp_path: Path, recorded: tuple[ProcessInfo, list[Batch]]
) -> None:
    script = """
import sys
from stepscope.store.light import import_pyarrow_lightly
import_pyarrow_lightly()
from stepscope.store.arrow import *
from stepscope.store.frames import FramesReader
from pathlib import Path
reader = FramesReader(Path(sys.argv[1]))
batches = reader.read_new()
writer = ArrowWriter(Path(sys.argv[2]), reader.process)
writer.write(batches, Position(0, reader.offset))
writer.close()
assert sum(batch.num_rows for batch in ArrowReader(Path(sys.argv[2])).record_batches()) == 4
heavy = {"numpy", "cloudpickle", "pandas", "duckdb", "pyarrow.compute"} & set(sys.modules)
assert not heavy, heavy
import numpy  # can still be had
"""
    paths = [str(tmp_path / "41-1.0000.frames"), str(tmp_path / "b.arrows")]
    subprocess.run([sys.executable, "-c", script, *paths], check=True)
