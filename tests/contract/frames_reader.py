"""A reader of frames written from FORMAT.md alone, independent of the one in the store."""

from __future__ import annotations

import json
import struct
import zlib
from dataclasses import dataclass, field
from typing import Any

COLUMNS = [
    ("time_ns", "q"),
    ("duration_ns", "q"),
    ("cpu_start_ns", "q"),
    ("cpu_ns", "q"),
    ("arg", "q"),
    ("value", "d"),
    ("name", "I"),
    ("text", "I"),
    ("step", "I"),
    ("track", "I"),
    ("type", "B"),
    ("flags", "B"),
]


@dataclass
class Decoded:
    header: Any = None
    names: dict[int, str] = field(default_factory=dict)
    rows: list[dict[str, Any]] = field(default_factory=list)
    batch_sizes: list[int] = field(default_factory=list)

    def named(self, name: str) -> list[dict[str, Any]]:
        return [row for row in self.rows if row["name"] == name]


def decode(data: bytes, names: dict[int, str] | None = None) -> Decoded:
    """`names`: those that were told before."""
    out = Decoded(names=dict(names or {}))
    at = 0
    while at < len(data):
        magic, kind, schema, zero, length, crc = struct.unpack_from("<4sBBHII", data, at)
        assert (magic, schema, zero) == (b"STP1", 1, 0)
        payload = data[at + 16 : at + 16 + length]
        assert len(payload) == length
        assert zlib.crc32(payload) == crc
        at += 16 + length + -length % 8
        if kind == 1:
            out.header = json.loads(payload)
        elif kind == 2:
            _names(payload, out)
        else:
            _events(payload, out)
    return out


def _names(payload: bytes, out: Decoded) -> None:
    at = 0
    while at < len(payload):
        number, length = struct.unpack_from("<II", payload, at)
        out.names[number] = payload[at + 8 : at + 8 + length].decode()
        at += 8 + length


def _events(payload: bytes, out: Decoded) -> None:
    (count,) = struct.unpack_from("<I", payload)
    at = 8
    columns = {}
    for name, code in COLUMNS:
        columns[name] = struct.unpack_from(f"<{count}{code}", payload, at)
        at += count * struct.calcsize(code)
    out.batch_sizes.append(count)
    for i in range(count):
        row = {name: columns[name][i] for name, _ in COLUMNS}
        row["name"] = out.names[row["name"]]
        row["text"] = out.names[row["text"]] if row["text"] else ""
        out.rows.append(row)
