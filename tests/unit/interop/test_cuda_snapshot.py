from __future__ import annotations

import json
from copy import deepcopy
from typing import Any

import pytest

from stepscope.errors import FormatError
from stepscope.interop import cuda_snapshot
from stepscope.interop.cuda_snapshot import snapshot_of
from stepscope.model.allocations import AllocatorAction
from tests.unit.interop.made_snapshot import MIB, TORCH, made_snapshot


def test_segments_and_events_are_taken_over() -> None:
    snapshot = snapshot_of(made_snapshot())
    assert [(one.device, one.bytes) for one in snapshot.segments] == [
        (0, 10 * MIB),
        (0, 20 * MIB),
        (0, 20 * MIB),
    ]
    states = [(one.bytes, one.in_use) for one in snapshot.segments[1].blocks]
    # What another stream still uses is in use.
    assert states == [(4 * MIB, True), (8 * MIB, False), (2 * MIB, True), (6 * MIB, False)]
    (events,) = snapshot.events.values()
    freed, allocated, refused = (
        AllocatorAction.FREED,
        AllocatorAction.ALLOCATED,
        AllocatorAction.REFUSED,
    )
    # Requests, segments and the snapshot itself do not change what is in use.
    assert [one.action for one in events] == [freed, allocated, allocated, refused, freed]
    assert events[1].bytes == 20 * MIB - 12
    assert events[1].at_us == 1_001_000


def test_stacks_are_innermost_first_and_shared() -> None:
    (events,) = snapshot_of(made_snapshot()).events.values()
    files = [frame.file for frame in events[1].stack]
    assert files[1:] == [TORCH, "/home/me/train.py", "/home/me/train.py"]
    assert events[1].stack[2].line == 5


def test_the_same_as_json_gives_the_same() -> None:
    document = json.loads(json.dumps(made_snapshot()))
    assert snapshot_of(document) == snapshot_of(made_snapshot())


def test_the_form_of_torch_1_is_read() -> None:
    old = {
        "segments": [
            {
                "device": 1,
                "address": 4096,
                "total_size": 1024,
                "blocks": [
                    {"size": 512, "state": "active_allocated", "history": [
                        {"addr": 4096, "real_size": 500, "frames": [
                            {"name": "f", "filename": "a.py", "line": 1}]}]},
                    {"size": 512, "state": "inactive"},
                ],
            }
        ]
    }  # fmt: skip
    (segment,) = snapshot_of(old).segments
    assert [(one.address, one.requested_bytes) for one in segment.blocks] == [
        (4096, 500),
        (4608, 512),
    ]
    assert segment.blocks[0].stack[0].file == "a.py"


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        (("segments",), {}, "segments should be a list"),
        (("segments", 0), 7, "segments[0] should be an object"),
        (("segments", 0, "total_size"), -1, "total_size is below 0"),
        (("segments", 0, "total_size"), 5, "blocks that are larger"),
        (("segments", 0, "total_size"), 1.5, "should be a whole number"),
        (("segments", 0, "total_size"), True, "should be a whole number"),
        (("segments", 0, "total_size"), 1 << 80, "at most 64 bits"),
        (("segments", 0, "device"), 10**9, "no machine has so many"),
        (("segments", 0, "blocks"), None, "blocks should be a list"),
        (("segments", 0, "blocks", 0, "state"), "lost", "state is none that is known"),
        (("segments", 0, "blocks", 0, "state"), [], "state is none that is known"),
        (("segments", 0, "blocks", 0, "size"), "big", "blocks[0].size"),
        (("segments", 0, "blocks", 0, "frames"), "x", "frames should be a list"),
        (("segments", 0, "blocks", 0, "frames", 0, "line"), "x", "frames.line"),
        (("device_traces",), 3, "device_traces should be a list"),
        (("device_traces",), [[]] * 2000, "more than 1024 devices"),
        (("device_traces", 0, 1), [], "device_traces[0][1] should be an object"),
        (("device_traces", 0, 1, "action"), 1, "action should be text"),
        (("device_traces", 0, 1, "addr"), None, "addr"),
        (("device_traces", 0, 1, "size"), -5, "size is below 0"),
        (("device_traces", 0, 1, "time_us"), "now", "time_us"),
    ],
)
def test_what_torch_does_not_write_is_refused_with_its_place(
    path: tuple[Any, ...], value: Any, said: str
) -> None:
    document = deepcopy(made_snapshot())
    owner = document
    for name in path[:-1]:
        owner = owner[name]
    owner[path[-1]] = value
    with pytest.raises(FormatError) as refused:
        snapshot_of(document)
    assert said in str(refused.value)


def test_one_list_held_many_times_is_not_walked_without_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cuda_snapshot, "_MAX_ENTRIES", 1000)
    document = made_snapshot()
    document["device_traces"] = [document["device_traces"][0] * 20] * 200
    with pytest.raises(FormatError, match="more than 1,000 blocks and events"):
        snapshot_of(document)
