"""Memory over time as counter tracks that ui.perfetto.dev opens.

One group a device, in it one counter a category that ever held anything. Numbers of fields are from
perfetto's protos/perfetto/trace:

    Trace            packet 1
    TracePacket      timestamp 8 (ns) · trusted_packet_sequence_id 10 · track_event 11
                     sequence_flags 13 · track_descriptor 60
    TrackDescriptor  uuid 1 · name 2 · parent_uuid 5 · counter 8
    CounterDescriptor  unit 3 (3: bytes)
    TrackEvent       type 9 (4: a counter's value) · track_uuid 11 · counter_value 30
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from stepscope.interop.protobuf import message, number, text
from stepscope.model.memory import CATEGORIES, DeviceMemory, Memory

__all__ = ["memory_to_perfetto"]

_PACKET: Final = 1
_TIMESTAMP, _SEQUENCE, _TRACK_EVENT, _FLAGS, _TRACK = 8, 10, 11, 13, 60
_UUID, _NAME, _PARENT, _COUNTER = 1, 2, 5, 8
_UNIT, _BYTES = 3, 3
_TYPE, _IS_COUNTER, _TRACK_UUID, _VALUE = 9, 4, 11, 30
_STATE_CLEARED: Final = 1  # the first packet of a sequence says that nothing came before it
_OURS: Final = 1  # the number of our sequence of packets


def memory_to_perfetto(memory: Memory) -> bytes:
    """A whole trace file."""
    packets = (packet for at, one in enumerate(memory.devices) for packet in _device(at, one))
    first = number(_FLAGS, _STATE_CLEARED)
    made = []
    for packet in packets:
        made.append(message(_PACKET, packet + number(_SEQUENCE, _OURS) + first))
        first = b""
    return b"".join(made)


def _device(place: int, device: DeviceMemory) -> Iterator[bytes]:
    """Its tracks, and then their values: where one is the same as before it is not said again."""
    group = 1 + place * (len(CATEGORIES) + 1)
    yield _track(group, f"Memory of {device.device}")
    used = [at for at in range(len(CATEGORIES)) if any(point.bytes[at] for point in device.points)]
    for at in used:
        yield _track(group + 1 + at, CATEGORIES[at], parent=group)
    last: dict[int, int] = {}
    for point in device.points:
        time_ns = max(0, round(point.at_ms * 1e6))
        for at in used:
            if last.get(at) != point.bytes[at]:
                last[at] = point.bytes[at]
                yield _value(group + 1 + at, time_ns, point.bytes[at])


def _track(uuid: int, name: str, parent: int | None = None) -> bytes:
    described = number(_UUID, uuid) + text(_NAME, name)
    if parent is not None:
        described += number(_PARENT, parent) + message(_COUNTER, number(_UNIT, _BYTES))
    return message(_TRACK, described)


def _value(uuid: int, time_ns: int, value: int) -> bytes:
    event = number(_TYPE, _IS_COUNTER) + number(_TRACK_UUID, uuid) + number(_VALUE, value)
    return number(_TIMESTAMP, time_ns) + message(_TRACK_EVENT, event)
