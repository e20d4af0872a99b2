from __future__ import annotations

import os
import struct
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stepscope.errors import FormatError
from stepscope.store.frames import FramesReader
from tests.unit.store.by_hand import NAMES, events, frame, header, names, whole_file


def reader_of(tmp_path: Path, content: bytes, after: int = 0) -> FramesReader:
    path = tmp_path / "41-1.0000.frames"
    path.write_bytes(content)
    return FramesReader(path, after)


def test_a_whole_file_gives_its_process_and_all_its_rows(tmp_path: Path) -> None:
    reader = reader_of(tmp_path, header() + names(NAMES) + events([1, 2], 100, text=3))
    (batch,) = reader.read_new()
    first, second = batch.rows()
    assert reader.process is not None
    assert (reader.process.pid, reader.process.argv) == (41, ("train.py",))
    assert (first.name, first.text, first.time_ns, first.duration_ns) == ("forward", "why", 100, 10)
    assert (second.name, second.time_ns, second.arg, second.step) == ("backward", 101, 1, 3)
    assert reader.unread_bytes() == 0


def test_a_growing_file_gives_each_batch_once(tmp_path: Path) -> None:
    content = whole_file(batches=3)
    reader = reader_of(tmp_path, b"")
    seen = []
    for end in range(0, len(content) + 1, 7):
        reader.path.write_bytes(content[:end])
        seen += [batch.columns["time_ns"][0] for batch in reader.read_new()]
    reader.path.write_bytes(content)
    seen += [batch.columns["time_ns"][0] for batch in reader.read_new()]
    assert seen == [0, 100, 200]


def test_names_that_a_full_disk_took_back_are_read_again(tmp_path: Path) -> None:
    start = header() + names({1: b"forward"}) + events([1])
    reader = reader_of(tmp_path, start + names({2: b"lost with its batch"}))
    assert len(reader.read_new()) == 1
    reader.path.write_bytes(start + names({2: b"gone", 3: b"stays"}) + events([3], 50))
    (batch,) = reader.read_new()
    assert [row.name for row in batch.rows()] == ["stays"]
    assert not reader.damage


def test_batches_that_stand_in_arrow_already_are_passed_over(tmp_path: Path) -> None:
    first = header() + names(NAMES) + events([1], 0)
    reader = reader_of(tmp_path, first + events([2], 50), after=len(first))
    (batch,) = reader.read_new()
    assert [row.name for row in batch.rows()] == ["backward"]


def test_a_torn_tail_is_left_and_what_stands_before_is_good(tmp_path: Path) -> None:
    reader = reader_of(tmp_path, whole_file(batches=2)[:-5])
    assert len(reader.read_new()) == 1
    assert not reader.damage
    assert reader.unread_bytes() > 0


def test_a_missing_file_has_no_batches(tmp_path: Path) -> None:
    assert FramesReader(tmp_path / "none.0000.frames").read_new() == []


def test_a_wrong_checksum_ends_the_readable_part(tmp_path: Path) -> None:
    content = bytearray(whole_file(batches=3))
    content[-len(events([1] * 3)) - 40] ^= 255  # within the second batch
    reader = reader_of(tmp_path, bytes(content))
    assert len(reader.read_new()) == 1
    assert "checksum" in reader.damage
    assert reader.unread_bytes() == 2 * len(events([1] * 3))
    assert reader.read_new() == []


@pytest.mark.parametrize("content", [b"PK\x03\x04 a zip file", b"S", b"STP2" * 9, b"\0" * 64])
def test_a_foreign_file_is_refused_with_what_to_do(tmp_path: Path, content: bytes) -> None:
    if content == b"S":  # may still become a frame
        assert reader_of(tmp_path, content).read_new() == []
        return
    with pytest.raises(FormatError, match=r"not a stepscope segment.*move it"):
        reader_of(tmp_path, content).read_new()


def test_a_newer_schema_asks_for_an_upgrade(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"newer stepscope.*pip install -U"):
        reader_of(tmp_path, frame(1, b"{}", schema=2)).read_new()


@pytest.mark.parametrize(
    "payload",
    [b"", b"[]", b"{", b"{}", b'{"pid": "x"}', b"\xff\xfe", b"[" * 100_000],
)
def test_a_header_that_is_none_is_refused(tmp_path: Path, payload: bytes) -> None:
    with pytest.raises(FormatError, match="not a stepscope segment"):
        reader_of(tmp_path, frame(1, payload)).read_new()


@pytest.mark.parametrize("field", ["pid", "rank", "host", "argv", "extra", "monotonic_ns"])
def test_a_header_with_a_field_of_another_kind_is_refused(tmp_path: Path, field: str) -> None:
    with pytest.raises(FormatError, match=field):
        reader_of(tmp_path, header(**{field: 1.5})).read_new()


def test_events_before_the_header_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="before its header"):
        reader_of(tmp_path, names(NAMES) + events([1])).read_new()


def test_an_absurd_length_is_damage_and_is_not_allocated(tmp_path: Path) -> None:
    absurd = struct.pack("<4sBBHII", b"STP1", 3, 1, 0, 0xFFFF_FFF0, 0)
    reader = reader_of(tmp_path, whole_file(batches=1) + absurd)
    assert len(reader.read_new()) == 1
    assert "4,294,967,280 bytes" in reader.damage


def test_an_absurd_count_is_damage(tmp_path: Path) -> None:
    reader = reader_of(tmp_path, header() + frame(3, struct.pack("<II", 0xFFFF_FFFF, 0)))
    assert reader.read_new() == []
    assert reader.damage


def test_a_name_longer_than_its_frame_is_damage(tmp_path: Path) -> None:
    reader = reader_of(tmp_path, header() + frame(2, struct.pack("<II", 1, 999)) + events([1]))
    assert reader.read_new() == []
    assert reader.damage


def test_an_event_with_an_unknown_name_is_dropped_and_counted(tmp_path: Path) -> None:
    reader = reader_of(tmp_path, header() + names(NAMES) + events([1, 77]) + events([2]))
    assert [row.name for batch in reader.read_new() for row in batch.rows()] == [
        "forward",
        "backward",
    ]
    assert reader.lost_events == 1


def test_a_name_of_number_0_is_no_name(tmp_path: Path) -> None:
    reader = reader_of(tmp_path, header() + names(NAMES) + events([0]))
    assert reader.read_new() == []
    assert reader.lost_events == 1


def test_a_name_that_is_not_utf8_stays_readable(tmp_path: Path) -> None:
    reader = reader_of(tmp_path, header() + names({1: b"caf\xe9"}) + events([1]))
    assert [row.name for batch in reader.read_new() for row in batch.rows()] == ["caf\ufffd"]


def test_frames_of_an_unknown_type_are_passed_over(tmp_path: Path) -> None:
    reader = reader_of(tmp_path, header() + names(NAMES) + frame(9, b"later") + events([1]))
    assert len(reader.read_new()) == 1


def test_a_batch_of_no_events_is_nothing(tmp_path: Path) -> None:
    reader = reader_of(tmp_path, header() + names(NAMES) + events([]) + events([1]))
    assert len(reader.read_new()) == 1
    assert reader.lost_events == 0


def test_a_folder_in_place_of_a_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="not a regular file"):
        FramesReader(tmp_path).read_new()


WHOLE = whole_file(batches=3, rows=4)


@settings(
    max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    cuts=st.lists(st.integers(0, len(WHOLE)), max_size=2),
    flips=st.lists(st.tuples(st.integers(0, len(WHOLE) - 1), st.integers(1, 255)), max_size=6),
    repair=st.booleans(),
)
def test_mutated_bytes_give_fewer_rows_or_a_format_error(
    tmp_path: Path, cuts: list[int], flips: list[tuple[int, int]], repair: bool
) -> None:
    content = bytearray(WHOLE)
    for position, change in flips:
        content[position] ^= change
    if repair:
        _mend_checksums(content)
    if len(cuts) == 2:
        del content[min(cuts) : max(cuts)]
    elif cuts:
        del content[cuts[0] :]
    path = tmp_path / f"{os.getpid()}.0000.frames"
    path.write_bytes(content)
    reader = FramesReader(path)
    try:
        rows = [row for batch in reader.read_new() for row in batch.rows()]
    except FormatError:
        return
    assert len(rows) <= 12


def _mend_checksums(content: bytearray) -> None:
    """So that nonsense inside a payload is met too, not only by its checksum."""
    import zlib

    at = 0
    while at + 16 <= len(content) and content[at : at + 4] == b"STP1":
        (size,) = struct.unpack_from("<I", content, at + 8)
        if at + 16 + size > len(content):
            return
        struct.pack_into("<I", content, at + 12, zlib.crc32(content[at + 16 : at + 16 + size]))
        at += 16 + (size + 7 & ~7)
