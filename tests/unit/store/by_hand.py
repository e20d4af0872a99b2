"""Frames files written by hand, from FORMAT.md and not from the code under test."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Sequence
from typing import Any

PROCESS: dict[str, Any] = {
    "pid": 41,
    "parent_pid": 40,
    "rank": 0,
    "world_size": 1,
    "host": "here",
    "role": "program",
    "argv": ["train.py"],
    "python": "3.11.7",
    "core": "python",
    "monotonic_ns": 1_000,
    "unix_ns": 2_000,
    "extra": {},
}


def frame(kind: int, payload: bytes, schema: int = 1) -> bytes:
    head = struct.pack("<4sBBHII", b"STP1", kind, schema, 0, len(payload), zlib.crc32(payload))
    return head + payload + bytes(-len(payload) % 8)


def header(**changes: object) -> bytes:
    return frame(1, json.dumps({**PROCESS, **changes}).encode())


def names(table: dict[int, bytes]) -> bytes:
    parts = [struct.pack("<II", number, len(text)) + text for number, text in table.items()]
    return frame(2, b"".join(parts))


def events(name_ids: Sequence[int], first_time_ns: int = 0, text: int = 0, kind: int = 1) -> bytes:
    """One span for each name id; the n-th begins at first_time_ns + n and lasts 10 ns."""
    count = len(name_ids)
    payload = struct.pack("<II", count, 0)
    payload += struct.pack(f"<{count}q", *range(first_time_ns, first_time_ns + count))
    payload += struct.pack(f"<{count}q", *[10] * count)
    payload += struct.pack(f"<{count}q", *[-1] * count) * 2
    payload += struct.pack(f"<{count}q", *range(count))
    payload += struct.pack(f"<{count}d", *[0.5] * count)
    payload += struct.pack(f"<{count}I", *name_ids)
    payload += struct.pack(f"<{count}I", *[text] * count)
    payload += struct.pack(f"<{count}I", *[3] * count)
    payload += struct.pack(f"<{count}I", *[41] * count)
    payload += bytes([kind] * count) + bytes(count)
    return frame(3, payload)


NAMES = {1: b"forward", 2: b"backward", 3: b"why"}


def whole_file(batches: int = 2, rows: int = 3, **changes: object) -> bytes:
    parts = [events([1] * rows, first_time_ns=100 * number) for number in range(batches)]
    return header(**changes) + names(NAMES) + b"".join(parts)
