"""Messages of Protocol Buffers, written by hand: a number, a text or a message behind its key.

https://protobuf.dev/programming-guides/encoding: a key is (field number << 3 | wire type); wire
type 0 is a varint (7 bits a byte, the lowest first), 2 is a length and so many bytes, 1 and 5 are 8
and 4 bytes.
"""

from __future__ import annotations

import struct

__all__ = ["double", "float32", "message", "number", "text", "varint"]

_VARINT, _EIGHT, _LENGTH, _FOUR = 0, 1, 2, 5
_BITS_64 = (1 << 64) - 1


def varint(value: int) -> bytes:
    """Negative numbers take ten bytes, as int64 does."""
    rest, encoded = value & _BITS_64, bytearray()
    while rest > 0x7F:
        encoded.append(rest & 0x7F | 0x80)
        rest >>= 7
    encoded.append(rest)
    return bytes(encoded)


def number(field: int, value: int) -> bytes:
    return varint(field << 3 | _VARINT) + varint(value)


def double(field: int, value: float) -> bytes:
    return varint(field << 3 | _EIGHT) + struct.pack("<d", value)


def float32(field: int, value: float) -> bytes:
    """What is too large for it is infinite."""
    try:
        packed = struct.pack("<f", value)
    except OverflowError:
        packed = struct.pack("<f", float("inf") if value > 0 else float("-inf"))
    return varint(field << 3 | _FOUR) + packed


def message(field: int, content: bytes) -> bytes:
    return varint(field << 3 | _LENGTH) + varint(len(content)) + content


def text(field: int, content: str) -> bytes:
    return message(field, content.encode("utf-8", "replace"))
