"""The bytes of a frame (store/FORMAT.md): what the twin writes and what the store reads."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Sequence
from typing import Any

__all__ = [
    "COLUMN_CODES",
    "EVENTS",
    "FILE_BYTES",
    "FRAME_HEAD",
    "HEADER",
    "MAGIC",
    "NAMES",
    "ROW_BYTES",
    "SCHEMA",
    "STATUS",
    "STATUS_MAGIC",
    "events_frame",
    "frame",
    "names_frame",
]

MAGIC = b"STP1"
SCHEMA = 1
HEADER, NAMES, EVENTS = 1, 2, 3
FRAME_HEAD = struct.Struct("<4sBBHII")  # magic, type, schema, 0, bytes of payload, CRC-32
FILE_BYTES = 8 << 20  # then the writer goes on in a new file

# Struct codes of the columns of model/event.py, in order; a test holds the two together.
COLUMN_CODES = "qqqqqdIIIIBB"
ROW_BYTES = struct.calcsize("<" + COLUMN_CODES)

STATUS_MAGIC = b"STPSTAT1"
STATUS = struct.Struct("<8s6q64s8x")


def frame(kind: int, payload: bytes) -> bytes:
    """A whole frame, padded to a multiple of 8 bytes."""
    head = FRAME_HEAD.pack(MAGIC, kind, SCHEMA, 0, len(payload), zlib.crc32(payload))
    return head + payload + bytes(-len(payload) % 8)


def names_frame(names: Iterable[tuple[int, str]]) -> bytes:
    parts = []
    for number, text in names:
        encoded = text.encode()
        parts.append(struct.pack("<II", number, len(encoded)) + encoded)
    return frame(NAMES, b"".join(parts))


def events_frame(rows: Sequence[Sequence[Any]]) -> bytes:
    """Rows in the order of the columns become columns."""
    count = len(rows)
    columns = zip(*rows, strict=True)
    packed = [
        struct.pack(f"<{count}{code}", *column)
        for code, column in zip(COLUMN_CODES, columns, strict=True)
    ]
    return frame(EVENTS, struct.pack("<II", count, 0) + b"".join(packed))
