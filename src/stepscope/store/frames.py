"""Reads .frames files (FORMAT.md), also while they grow, with the standard library alone.

Every length in a file is checked against what is there before it is believed.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from stepscope.descriptor import Descriptor
from stepscope.errors import FormatError
from stepscope.model.event import COLUMNS, Batch
from stepscope.model.process import ProcessInfo
from stepscope.record.frames import (
    EVENTS,
    FRAME_HEAD,
    HEADER,
    MAGIC,
    NAMES,
    ROW_BYTES,
    SCHEMA,
)
from stepscope.store.files import open_file
from stepscope.store.process import process_from_json
from stepscope.store.sound import sound

__all__ = ["FramesReader", "batch_of"]

_NAME = struct.Struct("<II")
_WIDTHS = tuple(struct.calcsize(column.code) for column in COLUMNS)
# A batch has 2,000 events (130 KiB). What claims to be far beyond that was not written by us.
_MAX_PAYLOAD_BYTES = 16 << 20
_CHUNK_BYTES = 2 * _MAX_PAYLOAD_BYTES


class _DamageError(Exception):
    """Nothing behind this place can be trusted."""


class FramesReader:
    """The batches of one file, up to the last complete frame; call again when it has grown.

    `after`: batches that end at or before this offset are passed over (they stand in Arrow).
    """

    def __init__(self, path: Path, after: int = 0) -> None:
        self.path = path
        self.process: ProcessInfo | None = None  # known once the file has a complete header
        self.offset = 0  # after the last batch that was read
        self.damage = ""  # why the rest of the file cannot be read; "": it can
        self.rows = 0  # events of the last batch, before those without sense were dropped
        self.lost_events = 0  # dropped because they make no sense (store/sound.py)
        self.names: dict[int, str] = {}
        self._after = after

    def read_new(self) -> list[Batch]:
        """The batches that were completed since the last call."""
        return list(self.batches())

    def batches(self) -> Iterator[Batch]:
        """As read_new, but holds only a part of a large file in memory."""
        try:
            file = Descriptor(open_file(self.path))
        except FileNotFoundError:
            return
        try:
            while not self.damage and (chunk := self._read_chunk(file)):
                before = self.offset
                yield from self._parse(memoryview(chunk))
                if self.offset == before:  # a tail that is not complete yet
                    return
        except _DamageError as error:
            self.damage = str(error)
        finally:
            file.close()

    def unread_bytes(self) -> int:
        """Size of what stands behind the last readable batch: a torn tail or damage."""
        try:
            return max(0, self.path.stat().st_size - self.offset)
        except OSError:
            return 0

    def _read_chunk(self, file: Descriptor) -> bytes:
        try:
            number = file.fileno()
            wanted = min(os.fstat(number).st_size - self.offset, _CHUNK_BYTES)
            return os.pread(number, wanted, self.offset) if wanted > 0 else b""
        except OSError as error:
            raise FormatError(_unreadable(self.path, error)) from error

    def _parse(self, data: memoryview) -> Iterator[Batch]:
        """The offset moves on only behind events: a writer whose disk is full takes back what it
        wrote before them (names, header) and writes it anew."""
        start, at = self.offset, 0
        while frame := self._frame(data, at, first=start + at == 0):
            kind, payload, at = frame
            if kind == HEADER:
                self._take_header(payload)
            elif kind == NAMES:
                self._take_names(payload)
            elif kind == EVENTS:
                batch = self._events(payload)
                self.offset = start + at
                if batch is not None and self.offset > self._after:
                    yield batch

    def _frame(
        self, data: memoryview, at: int, *, first: bool
    ) -> tuple[int, memoryview, int] | None:
        """Type, payload and end of the frame at `at`; None: it is not complete."""
        if first and data[: len(MAGIC)] != MAGIC[: len(data)]:
            raise FormatError(_foreign(self.path, "it does not begin like one"))
        if len(data) - at < FRAME_HEAD.size:
            return None
        magic, kind, schema, _, size, crc = FRAME_HEAD.unpack_from(data, at)
        if magic != MAGIC:
            raise _DamageError("a frame does not begin where one should")
        if schema > SCHEMA:
            raise FormatError(
                f"{self.path} was written by a newer stepscope (segment schema {schema}, this one"
                f" reads {SCHEMA}): upgrade with pip install -U stepscope."
            )
        if size > _MAX_PAYLOAD_BYTES:
            raise _DamageError(f"a frame claims {size:,} bytes")
        begin = at + FRAME_HEAD.size
        end = begin + (size + 7 & ~7)
        if end > len(data):
            return None
        payload = data[begin : begin + size]
        if zlib.crc32(payload) != crc:
            raise _DamageError("a checksum does not match")
        return kind, payload, end

    def _take_header(self, payload: memoryview) -> None:
        if self.process is not None:
            return
        try:
            self.process = process_from_json(bytes(payload))
        except FormatError as error:
            raise FormatError(_foreign(self.path, str(error))) from error

    def _take_names(self, payload: memoryview) -> None:
        at = 0
        while at + _NAME.size <= len(payload):
            number, size = _NAME.unpack_from(payload, at)
            at += _NAME.size
            if size > len(payload) - at:
                raise _DamageError("a name is longer than its frame")
            self.names[number] = str(payload[at : at + size], "utf-8", "replace")
            at += size

    def _events(self, payload: memoryview) -> Batch | None:
        if self.process is None:
            raise FormatError(_foreign(self.path, "events come before its header"))
        count = struct.unpack_from("<I", payload)[0] if len(payload) >= 8 else -1
        if len(payload) != 8 + count * ROW_BYTES:
            raise _DamageError("a batch has another size than it says")
        if count == 0:
            return None
        batch = sound(batch_of(payload, self.names))
        self.rows = count
        self.lost_events += count - batch.count
        return batch if batch.count else None


def batch_of(payload: memoryview, names: Mapping[int, str]) -> Batch:
    """The batch in the payload of an EVENTS frame whose size is right."""
    count = struct.unpack_from("<I", payload)[0]
    columns: dict[str, memoryview] = {}
    at = 8
    for column, width in zip(COLUMNS, _WIDTHS, strict=True):
        values: Any = payload[at : at + count * width]
        columns[column.name] = values.cast(column.code)
        at += count * width
    return Batch(count, columns, names)


def _foreign(path: Path, why: str) -> str:
    return (
        f"{path} is not a stepscope segment ({why}): move it out of the run folder, or point to"
        " another run."
    )


def _unreadable(path: Path, error: OSError) -> str:
    return f"{path} cannot be read ({error.strerror}): check its permissions and the disk."
