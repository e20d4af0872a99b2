"""Batches ⇄ Arrow, and the stream of one process on disk (FORMAT.md)."""

from __future__ import annotations

import os
from array import array
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.ipc

from stepscope.errors import FormatError
from stepscope.model.event import COLUMNS, Batch
from stepscope.model.process import ProcessInfo
from stepscope.store.files import PRIVATE_FILE, open_file
from stepscope.store.process import process_from_json, process_to_json

__all__ = ["EVENT_FIELDS", "ArrowReader", "ArrowWriter", "Position", "to_batch", "to_record_batch"]

SCHEMA_NUMBER = 1
_SCHEMA_KEY, _PROCESS_KEY, _FRAMES_KEY, _THINNED_KEY = (
    b"stepscope.schema",
    b"stepscope.process",
    b"stepscope.frames",
    b"stepscope.thinned",
)
_TYPES = {"q": pa.int64(), "d": pa.float64(), "I": pa.uint32(), "B": pa.uint8()}
_STRINGS = ("name", "text")
EVENT_FIELDS = [
    pa.field(column.name, pa.string() if column.name in _STRINGS else _TYPES[column.code], False)
    for column in COLUMNS
]


class Position(NamedTuple):
    """Up to where the frames of a process stand in Arrow."""

    file: int = -1  # -1: nothing does
    offset: int = 0


def to_record_batch(batches: Sequence[Batch], schema: pa.Schema | None = None) -> pa.RecordBatch:
    """Batches of one process as one record batch. A single one is not copied."""
    count = sum(batch.count for batch in batches)
    columns = []
    for field, column in zip(EVENT_FIELDS, COLUMNS, strict=True):
        if column.name in _STRINGS:
            columns.append(pa.array(_resolved(batches, column.name), pa.string()))
        else:
            parts = [batch.columns[column.name] for batch in batches]
            values = parts[0] if len(parts) == 1 else b"".join(parts)
            columns.append(pa.Array.from_buffers(field.type, count, [None, pa.py_buffer(values)]))
    return pa.RecordBatch.from_arrays(columns, schema=schema or pa.schema(EVENT_FIELDS))


def _resolved(batches: Sequence[Batch], column: str) -> list[str]:
    return [
        batch.names[number] if number else ""
        for batch in batches
        for number in batch.columns[column]
    ]


def to_batch(record_batch: pa.RecordBatch) -> Batch:
    """The way back; names get numbers of their own."""
    numbers: dict[str, int] = {}
    columns: dict[str, memoryview] = {}
    for column in COLUMNS:
        values = record_batch.column(column.name)
        if column.name in _STRINGS:
            may_lack = column.name == "text"
            columns[column.name] = memoryview(_numbered(values, numbers, may_lack=may_lack))
        else:
            width = values.type.bit_width // 8
            whole = memoryview(values.buffers()[1]).cast("B")
            start = values.offset * width
            part: Any = whole[start : start + len(values) * width]
            columns[column.name] = part.cast(column.code)
    return Batch(record_batch.num_rows, columns, {number: name for name, number in numbers.items()})


def _numbered(values: pa.Array, numbers: dict[str, int], *, may_lack: bool) -> array[int]:
    """Each text as a number; 0 for none, where there may be none."""
    texts = [text or "" for text in values.to_pylist()]
    return array(
        "I",
        (
            numbers.setdefault(text, len(numbers) + 1) if text or not may_lack else 0
            for text in texts
        ),
    )


class ArrowWriter:
    """A part of the stream of one process. After an OSError the file ends with the last complete
    batch and must not be written to again.

    thinned: how many times half of what it had was left out (rotation.py).
    """

    def __init__(self, path: Path, process: ProcessInfo, thinned: int = 0) -> None:
        metadata = {_SCHEMA_KEY: str(SCHEMA_NUMBER), _PROCESS_KEY: process_to_json(process)}
        if thinned:
            metadata[_THINNED_KEY] = str(thinned)
        self._path = path
        self._schema = pa.schema(EVENT_FIELDS, metadata=metadata)
        path.touch(PRIVATE_FILE)  # pyarrow would let everybody read it
        self._sink = pa.OSFile(os.fsencode(path), "wb")  # unbuffered: what it took survives kill -9
        options = pa.ipc.IpcWriteOptions(compression="zstd")
        self.complete_bytes = 0  # up to the last complete batch
        try:
            self._stream = pa.ipc.new_stream(self._sink, self._schema, options=options)
        except OSError:
            self._cut()
            raise

    def write(self, batches: Sequence[Batch], covers: Position) -> None:
        """Appends the batches as one. `covers`: the frames up to there stand in the stream now."""
        self.write_record_batch(to_record_batch(batches, self._schema), covers)

    def write_record_batch(self, record_batch: pa.RecordBatch, covers: Position) -> None:
        """As `write`. A batch without rows only says what is covered."""
        metadata = {_FRAMES_KEY: f"{covers.file}:{covers.offset}"}
        try:
            self._stream.write_batch(record_batch, custom_metadata=metadata)
        except OSError:
            self._cut()
            raise
        self.complete_bytes = self._sink.tell()

    def close(self) -> None:
        """Marks the end of the stream. An OSError here loses nothing."""
        try:
            self._stream.close()
        finally:
            self._sink.close()

    def _cut(self) -> None:
        self._sink.close()
        try:
            os.truncate(self._path, self.complete_bytes)
        except OSError:
            pass  # a torn batch at the end is a thing readers expect


class ArrowReader:
    """Reads a stream up to its last complete batch: a killed writer leaves a torn end."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.covers = Position()  # the frames up to there have been given out
        self.torn = False  # the last batch was cut off
        self._source, self._stream, self.process, self.thinned = _open(path)

    def record_batches(self) -> Iterator[pa.RecordBatch]:
        while self._stream is not None:
            try:
                record_batch, metadata = self._stream.read_next_batch_with_custom_metadata()
                record_batch.validate(full=True)
            except StopIteration:
                return
            except (pa.ArrowException, OSError):
                self.torn = True
                return
            self.covers = _position(metadata, self.covers)
            if record_batch.num_rows:
                yield record_batch

    def close(self) -> None:
        self._source.close()


def _open(path: Path) -> tuple[Any, Any, ProcessInfo | None, int]:
    """The file, the stream, whose it is and how thin; None: nothing complete stands in it."""
    try:
        file = open_file(path)
    except FileNotFoundError as error:
        raise FormatError(f"{path} is gone.") from error
    try:
        source = pa.OSFile(b"/dev/fd/%d" % file, "rb")  # Arrow takes no descriptor.
    except OSError as error:
        raise FormatError(
            f"{path} cannot be read ({os.strerror(error.errno or 0)}): check its permissions."
        ) from error
    finally:
        os.close(file)
    if source.size() == 0:
        return source, None, None, 0
    try:
        stream = pa.ipc.open_stream(source)
    except (pa.ArrowException, OSError) as error:
        if _begins_like_a_stream(path):
            return source, None, None, 0
        raise FormatError(_foreign(path)) from error
    metadata = stream.schema.metadata or {}
    schema = metadata.get(_SCHEMA_KEY, b"")
    if schema.isdigit() and int(schema) > SCHEMA_NUMBER:
        raise FormatError(
            f"{path} was written by a newer stepscope (segment schema {int(schema)}, this one reads"
            f" {SCHEMA_NUMBER}): upgrade with pip install -U stepscope."
        )
    try:
        process = process_from_json(metadata[_PROCESS_KEY])
    except (KeyError, FormatError) as error:
        raise FormatError(_foreign(path)) from error
    if not stream.schema.equals(pa.schema(EVENT_FIELDS)):
        raise FormatError(_foreign(path))
    thinned = metadata.get(_THINNED_KEY, b"")
    return source, stream, process, int(thinned) if thinned.isdigit() else 0


def _begins_like_a_stream(path: Path) -> bool:
    """Torn within its first message, against foreign: Arrow's marker and a length stand first."""
    with path.open("rb") as file:
        head = file.read(8)
    marker = b"\xff\xff\xff\xff"
    if len(head) < 8:
        return marker.startswith(head[:4])
    size = int.from_bytes(head[4:], "little")
    return head.startswith(marker) and path.stat().st_size < 8 + size


def _position(metadata: Any, before: Position) -> Position:
    text = (metadata or {}).get(_FRAMES_KEY, b"").decode("ascii", "replace")
    file, _, offset = text.partition(":")
    return Position(int(file), int(offset)) if file.isdigit() and offset.isdigit() else before


def _foreign(path: Path) -> str:
    return (
        f"{path} is not a stepscope segment: move it out of the run folder, or point to another"
        " run."
    )
