from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path

import pytest

from stepscope.analyze.memory_files import (
    fragmentation_of,
    memory_of_snapshot,
    memory_of_timeline,
)
from stepscope.analyze.user_code import users_place
from stepscope.interop.cuda_snapshot import snapshot_of
from stepscope.interop.load import load_memory_file
from stepscope.model.allocations import AllocatorSnapshot, CategoryTimeline
from stepscope.model.finding import Location
from stepscope.model.memory import CATEGORIES, MAX_MEMORY_POINTS
from tests.unit.interop.made_snapshot import MIB, TORCH, made_snapshot, segment, traces_folder
from tests.unit.interop.made_snapshot import block as made_block


@pytest.fixture(scope="module")
def recorded() -> Path:
    folder = traces_folder()
    if folder is None or not (folder / "memory-timeline.raw.gz").is_file():
        pytest.skip("the recorded memory timeline is not here: ../shared/traces")
    return folder / "memory-timeline.raw.gz"


def test_a_recorded_timeline_agrees_with_a_plain_replay(recorded: Path) -> None:
    # The numbers of torch/profiler/_memory_profiler.py.
    names = {0: "parameter", 1: "optimizer state", 2: "input", 3: "temporary", 4: "activation",
             5: "gradient", 6: "other", 7: "other"}  # fmt: skip
    held: Counter[str] = Counter()
    highest, made_of, at_ns, first_ns = 0, {}, 0, 0
    entries = json.loads(gzip.decompress(recorded.read_bytes()))
    for time_ns, _, size, category in entries:
        held[names[category]] += size
        first_ns = first_ns or max(0, time_ns)
        if held.total() > highest:
            highest, made_of, at_ns = held.total(), dict(held), time_ns

    loaded = load_memory_file(recorded)
    assert isinstance(loaded, CategoryTimeline)
    memory = memory_of_timeline(loaded)
    (device,) = memory.devices
    assert len(entries) == 16_845
    assert device.peak.bytes == highest == device.peak.parts_bytes
    assert device.peak.at_ms == pytest.approx((at_ns - first_ns) / 1e6)
    assert {part.category: part.bytes for part in device.peak.parts} == {
        name: size for name, size in made_of.items() if size
    }
    assert len(device.points) <= MAX_MEMORY_POINTS
    top = max(device.points, key=lambda point: point.total)
    assert dict(zip(CATEGORIES, top.bytes, strict=True)) == {
        name: made_of.get(name, 0) for name in CATEGORIES
    }
    assert device.live_bytes == held.total()
    assert dict(zip(CATEGORIES, device.points[-1].bytes, strict=True)) == {
        name: held[name] for name in CATEGORIES
    }


def test_a_snapshot_tells_its_peak_by_the_users_lines() -> None:
    memory = memory_of_snapshot(snapshot_of(made_snapshot()))
    (device,) = memory.devices
    assert device.device == "cuda:0"
    # 10 and 4 MiB stay, and 2 of another stream; 20 came and went: 12 bytes less each.
    assert device.peak.bytes == 36 * MIB - 4 * 12
    assert device.peak.at_ms == pytest.approx(1.99)  # since the first event that counts
    assert [(part.bytes, part.location.line) for part in device.peak.parts] == [
        (20 * MIB - 12, 5),
        (10 * MIB - 12, 3),
        (4 * MIB - 12, 7),
        (2 * MIB - 12, None),
    ]
    assert {part.category for part in device.peak.parts} == {"other"}
    assert device.peak.parts[0].location == Location("/home/me/train.py", 5, "forward")
    assert device.live_bytes == 16 * MIB - 3 * 12
    assert device.points[0].total == 18 * MIB - 3 * 12
    assert (device.allocations, device.frees) == (2, 2)
    assert memory.stack_share == 1.0


def test_a_refused_allocation_is_told_with_its_line() -> None:
    (refused,) = memory_of_snapshot(snapshot_of(made_snapshot())).refused
    assert (refused.bytes, refused.location.line, refused.step) == (2048 * MIB, 8, -1)


def test_fragmentation_is_what_the_blocks_say() -> None:
    (found,) = memory_of_snapshot(snapshot_of(made_snapshot())).fragmentation
    assert found.reserved_bytes == 50 * MIB
    assert found.allocated_bytes == 16 * MIB
    assert found.free_bytes == 34 * MIB
    assert found.largest_free_bytes == 20 * MIB
    assert found.inactive_split_bytes == 14 * MIB  # of the segment that is partly in use
    assert found.share == pytest.approx(14 / 34)


def test_nothing_reserved_is_not_fragmented() -> None:
    found = fragmentation_of([], "cuda:0")
    assert (found.free_bytes, found.largest_free_bytes, found.share) == (0, 0, None)


def test_devices_are_kept_apart_and_one_without_history_says_so() -> None:
    document = {
        "segments": [
            segment(0x1000, made_block(0x1000, 512), device=0),
            segment(0x1000, made_block(0x1000, 2048), device=3),
        ]
    }
    memory = memory_of_snapshot(snapshot_of(document))
    assert [(one.device, one.peak.bytes) for one in memory.devices] == [
        ("cuda:0", 500),
        ("cuda:3", 2036),
    ]
    assert any("_record_memory_history" in note for note in memory.notes)
    assert memory.stack_share is None


def test_a_peak_of_many_stacks_stays_small_and_adds_up() -> None:
    blocks = [made_block(512 * at, 512, line=at + 1) for at in range(1000)]
    (device,) = memory_of_snapshot(snapshot_of({"segments": [segment(0, *blocks)]})).devices
    assert len(device.peak.parts) == 201
    assert sum(part.bytes for part in device.peak.parts) == device.peak.bytes == 500_000


def test_an_empty_snapshot_has_no_devices() -> None:
    assert memory_of_snapshot(AllocatorSnapshot()).devices == ()


@pytest.mark.parametrize(
    ("stack", "line"),
    [
        ([("/a/Empty.cpp", 1), (TORCH, 2), ("/home/me/a.py", 3), ("/home/me/b.py", 4)], 3),
        ([("/a/Empty.cpp", 1), (TORCH, 2)], 2),
        ([("/a/Empty.cpp", 1)], 1),
        ([("??", 0), ("<stdin>", 9)], 9),
        ([], None),
    ],
)
def test_the_users_innermost_line_is_chosen(stack: list[tuple[str, int]], line: int | None) -> None:
    frames = tuple(Location(file, at, "f") for file, at in stack)
    assert users_place(frames).line == line


def test_a_comprehension_belongs_to_its_function() -> None:
    place = users_place((Location("/home/me/a.py", 3, "Net.forward.<locals>.<listcomp>"),))
    assert place.function == "Net.forward"
