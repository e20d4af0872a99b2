"""Event files of TensorBoard, written without it: records of the messages Event and Summary.

A record is its length (8 bytes), a checksum of that (4), the message, a checksum of that (4), all
little-endian. https://github.com/tensorflow/tensorboard/tree/master/tensorboard/compat/proto has
the messages: event.proto, summary.proto, tensor.proto.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from typing import Final

from stepscope.interop.protobuf import double, float32, message, number, text

__all__ = ["crc32c", "file_version", "record", "scalars", "text_summary"]

_VERSION: Final = "brain.Event:2"
_DT_STRING: Final = 7
_POLYNOMIAL: Final = 0x82F63B78  # Castagnoli's, reflected


def record(event: bytes) -> bytes:
    """An event as it stands in the file."""
    length = struct.pack("<Q", len(event))
    return b"".join((length, _masked(length), event, _masked(event)))


def file_version(wall_time_s: float) -> bytes:
    """The event that every file begins with."""
    return double(1, wall_time_s) + text(3, _VERSION)


def scalars(wall_time_s: float, step: int, values: Mapping[str, float]) -> bytes:
    """Values by their tags, at a step."""
    of = (message(1, text(1, tag) + float32(2, value)) for tag, value in values.items())
    return _event(wall_time_s, step, of)


def text_summary(wall_time_s: float, step: int, tag: str, content: str) -> bytes:
    """A text (Markdown) for TensorBoard's page of texts."""
    shape = message(2, number(1, 1))  # of one dimension, with one element
    tensor = number(1, _DT_STRING) + message(2, shape) + text(8, content)
    plugin = message(1, text(1, "text"))
    return _event(
        wall_time_s, step, [message(1, text(1, tag) + message(9, plugin) + message(8, tensor))]
    )


def _event(wall_time_s: float, step: int, values: Iterable[bytes]) -> bytes:
    return double(1, wall_time_s) + number(2, step) + message(5, b"".join(values))


def _masked(content: bytes) -> bytes:
    """Checksums of data that holds checksums are weak: so they are turned and moved."""
    crc = crc32c(content)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def crc32c(content: bytes) -> int:
    """
    >>> hex(crc32c(b"123456789"))
    '0xe3069283'
    """
    crc = 0xFFFFFFFF
    for byte in content:
        crc = _TABLE[(crc ^ byte) & 0xFF] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


def _entry(value: int) -> int:
    for _ in range(8):
        value = value >> 1 ^ (_POLYNOMIAL if value & 1 else 0)
    return value


_TABLE: Final = tuple(_entry(value) for value in range(256))
