from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import Any, NamedTuple

from stepscope.interop.perfetto import memory_to_perfetto
from stepscope.interop.protobuf import number, varint
from stepscope.model.memory import DeviceMemory, Memory, MemoryPoint, Peak

POINTS = (
    MemoryPoint(0.0, -1, (100, 0, 0, 0, 0, 0, 7)),
    MemoryPoint(1.5, -1, (100, 0, 0, 5 << 40, 0, 0, 7)),
    MemoryPoint(2.25, -1, (100, 0, 0, 0, 0, 0, 7)),
)
DEVICE = DeviceMemory("cuda:0", Peak(1), POINTS)
MEMORY = Memory("run", devices=(DEVICE, replace(DEVICE, device="cuda:1")))


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    value, shift = 0, 0
    while True:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at


def decode(data: bytes) -> dict[int, list[Any]]:
    """Numbers and bytes by field: a reader that shares nothing with the writer."""
    fields: dict[int, list[Any]] = defaultdict(list)
    at = 0
    while at < len(data):
        key, at = read_varint(data, at)
        value, at = read_varint(data, at)
        if key & 7 == 2:
            assert at + value <= len(data)
            fields[key >> 3].append(data[at : at + value])
            at += value
        else:
            assert key & 7 == 0
            fields[key >> 3].append(value)
    return fields


class Trace(NamedTuple):
    tracks: dict[int, dict[int, list[Any]]]  # by uuid
    values: dict[int, list[tuple[int, int]]]  # by uuid: ns and value
    packets: list[dict[int, list[Any]]]


def trace() -> Trace:
    packets = [decode(one) for one in decode(memory_to_perfetto(MEMORY))[1]]
    tracks = {}
    values = defaultdict(list)
    for packet in packets:
        for described in packet.get(60, []):
            track = decode(described)
            assert track[1][0] not in tracks
            tracks[track[1][0]] = track
        for event in packet.get(11, []):
            counted = decode(event)
            assert counted[9] == [4]  # TYPE_COUNTER
            values[counted[11][0]].append((packet[8][0], counted[30][0]))
    return Trace(tracks, dict(values), packets)


def test_every_device_has_a_track_for_each_category_it_used() -> None:
    tracks = trace().tracks
    groups = {uuid: track[2][0] for uuid, track in tracks.items() if 5 not in track}
    assert list(groups.values()) == [b"Memory of cuda:0", b"Memory of cuda:1"]
    for uuid in groups:
        names = [track[2][0] for track in tracks.values() if track.get(5) == [uuid]]
        assert names == [b"parameter", b"activation", b"other"]
    assert 0 not in tracks


def test_counters_are_in_bytes() -> None:
    for track in trace().tracks.values():
        if 5 in track:
            assert decode(track[8][0])[3] == [3]  # UNIT_SIZE_BYTES


def test_values_stand_at_their_times_in_ns_and_are_said_when_they_change() -> None:
    found = trace()
    named = {
        (found.tracks[track[5][0]][2][0], track[2][0]): found.values[uuid]
        for uuid, track in found.tracks.items()
        if 5 in track
    }
    assert named[b"Memory of cuda:1", b"parameter"] == [(0, 100)]
    assert named[b"Memory of cuda:0", b"activation"] == [
        (0, 0),
        (1_500_000, 5 << 40),
        (2_250_000, 0),
    ]


def test_all_packets_are_of_one_sequence_that_begins_once() -> None:
    packets = trace().packets
    assert {packet[10][0] for packet in packets} == {1}
    assert [packet.get(13) for packet in packets] == [[1]] + [None] * (len(packets) - 1)


def test_numbers_are_encoded_as_the_format_says() -> None:
    # The examples of the description of the encoding.
    assert varint(150) == b"\x96\x01"
    assert number(1, 150) == b"\x08\x96\x01"
    assert varint(-2) == b"\xfe" + b"\xff" * 8 + b"\x01"


def test_no_points_make_a_trace_without_values() -> None:
    empty = decode(memory_to_perfetto(Memory("run", devices=(DeviceMemory("cpu", Peak(0)),))))
    assert len(empty[1]) == 1
    assert memory_to_perfetto(Memory("run")) == b""
