"""What both cores promise about garbage collections."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from stepscope.model import names
from tests.contract.frames_reader import decode


def test_a_collection_is_a_span_that_tells_its_generation_and_what_it_found(core: Any) -> None:
    callback = core.gc_callback(core.intern(names.GC))
    callback("start", {"generation": 1, "collected": 0, "uncollectable": 0})
    callback("stop", {"generation": 1, "collected": 30, "uncollectable": 5})
    (span,) = decode(core.drain()).named(names.GC)
    assert span["arg"] & ((1 << names.GC_GENERATION_BITS) - 1) == 1
    assert span["arg"] >> names.GC_GENERATION_BITS == 5
    assert span["value"] == 30.0
    assert span["duration_ns"] >= 0


def test_an_end_without_a_start_is_nothing(core: Any) -> None:
    callback = core.gc_callback(core.intern(names.GC))
    callback("stop", {"generation": 2, "collected": 0, "uncollectable": 0})
    assert core.drain() == b""


def test_no_collection_is_dropped_however_fast_they_come(core: Any, tmp_path: Path) -> None:
    (tmp_path / "rank-00000").mkdir()
    core.open(str(tmp_path / "rank-00000" / "x"), b"{}")
    core.pause()  # nobody writes by himself
    callback = core.gc_callback(core.intern(names.GC))
    info = {"generation": 0, "collected": 0, "uncollectable": 0}
    for _ in range(20_000):
        callback("start", info)
        callback("stop", info)
    core.close()
    data = b"".join(path.read_bytes() for path in sorted(tmp_path.glob("rank-*/*.frames")))
    assert len(decode(data).named(names.GC)) == 20_000


def test_a_program_that_lists_its_callbacks_sees_whose_this_one_is(core: Any) -> None:
    callback = core.gc_callback(core.intern(names.GC))

    assert "stepscope_gc_timer" in repr(callback)
