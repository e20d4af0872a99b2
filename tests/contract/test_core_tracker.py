"""What both cores promise about memory that a program tells them about."""

from __future__ import annotations

import gc
import os
import threading
import weakref
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stepscope.model import names
from stepscope.record.twin import TwinCore
from tests.contract.conftest import native_core
from tests.contract.frames_reader import decode

ALL = 1 << 62


def tracker_of(core: Any, number: int = 1) -> Any:
    return core.Tracker(number, tuple(core.intern(name) for name in names.TRACKED))


def rows_of(data: bytes) -> list[Any]:
    return [SimpleNamespace(**row) for row in decode(data).rows if row["name"] in names.TRACKED]


def taken(core: Any, tracker: Any) -> list[Any]:
    """The rows of what waits; no writer is open, so the core itself hands them over."""
    core.close()  # all names are told again
    tracker.attach()
    rows = rows_of(core.drain())
    tracker.detach()
    return rows


def test_totals_follow_what_is_said_of_all_and_of_each_type(core: Any) -> None:
    tracker = tracker_of(core)
    tracker.track_allocation(0x1000, 100, "GPU")
    tracker.track_allocation(0x2000, 50, "CPU")
    tracker.track_deallocation(0x1000, 100)
    assert tracker.totals()["live_bytes"] == 50
    assert tracker.totals()["peak_bytes"] == 150
    assert tracker.totals("GPU")["freed_bytes"] == 100
    assert tracker.totals("CPU")["live"] == 1
    assert tracker.totals("never seen")["allocated"] == 0
    assert tracker.kinds() == ["GPU", "CPU"]


def test_arguments_have_names(core: Any) -> None:
    tracker = tracker_of(core)
    tracker.track_allocation(address=0x1000, allocation_type="CPU", size_bytes=8)
    tracker.track_reallocation(0x1000, new_address=0x2000, size_bytes=16)
    tracker.track_deallocation(0x2000, size_bytes=16)
    assert tracker.totals()["allocated_bytes"] == 24
    assert not any(tracker.errors().values())
    for wrong in ((), (1,), (1, 2, "CPU", 4)):
        with pytest.raises(TypeError):
            tracker.track_allocation(*wrong)
    with pytest.raises(TypeError):
        tracker.track_allocation(1, 2, allocation_typ="CPU")
    with pytest.raises(TypeError, match="must be a str"):
        tracker.track_allocation(1, 2, 3)


def test_each_call_is_an_event_with_address_bytes_type_step_thread_and_stack(core: Any) -> None:
    core.set_step(7)
    tracker = tracker_of(core, number=5)
    tracker.stack_depth = 3
    before_ns = core.now_ns()
    tracker.track_allocation(0x1000, 100, "GPU")
    tracker.track_deallocation(0x1000)
    tracker.track_snapshot()
    totals, alloc, free, snapshot = taken(core, tracker)
    assert (totals.name, totals.arg, totals.value) == (names.TRACKED_TOTALS, 0, 0.0)
    assert (alloc.name, alloc.arg, alloc.value, alloc.text) == ("tracked.alloc", 4096, 100, "GPU")
    assert (free.name, free.arg, free.value, free.text) == ("tracked.free", 4096, 100, "GPU")
    assert (snapshot.name, snapshot.arg, snapshot.value) == ("tracked.snapshot", 0, 0.0)
    assert {row.step for row in (alloc, free, snapshot)} == {7}
    assert alloc.track == threading.get_native_id()
    assert {row.cpu_ns for row in (totals, alloc, free, snapshot)} == {5}
    assert alloc.cpu_start_ns == free.cpu_start_ns
    assert tracker.stacks.resolve(alloc.cpu_start_ns)[0][0] == __file__
    assert before_ns - 200_000 <= alloc.time_ns <= free.time_ns <= core.now_ns() + 200_000


def test_a_later_batch_begins_with_the_totals_up_to_there(core: Any) -> None:
    tracker = tracker_of(core)
    tracker.track_allocation(0x1000, 100, "CPU")
    tracker.track_deallocation(0x1000)
    taken(core, tracker)
    tracker.track_allocation(0x1000, 30, "CPU")
    totals, _ = taken(core, tracker)
    assert (totals.arg, totals.value) == (100, 100.0)


def test_wrong_bookings_are_counted_listed_and_leave_the_totals_right(core: Any) -> None:
    tracker = tracker_of(core)
    tracker.track_allocation(0x1000, 100, "CPU")
    tracker.track_deallocation(0x9000, 5)
    tracker.track_allocation(0x1000, 30, "GPU")
    tracker.track_allocation(0x2000, -5, "CPU")
    tracker.track_allocation(0x2000, 1 << 60, "CPU")
    tracker.track_allocation(0, 10, "CPU")
    tracker.track_deallocation(0x1000, 31)
    assert [(row[0], row[1], row[2], row[3]) for row in tracker.wrong()] == [
        ("unknown_free", 0x9000, 5, -1),
        ("double_allocation", 0x1000, 30, 1),
        ("bad_size", 0x2000, -5, 0),
        ("bad_size", 0x2000, 1 << 60, 0),
        ("bad_size", 0, 10, 0),
        ("size_mismatch", 0x1000, 31, 1),
    ]
    assert tracker.errors() == {
        "unknown_frees": 1,
        "size_mismatches": 1,
        "double_allocations": 1,
        "bad_sizes": 3,
        "dropped_events": 0,
    }
    totals = tracker.totals()
    assert (totals["live_bytes"], totals["allocated_bytes"], totals["freed_bytes"]) == (0, 130, 130)
    assert [row.name for row in taken(core, tracker)[1:]] == [
        "tracked.alloc",
        "tracked.moved",
        "tracked.alloc",
        "tracked.free",
    ]


def test_the_list_of_wrong_bookings_keeps_the_last(core: Any) -> None:
    tracker = tracker_of(core)
    for address in range(1, 1001):
        tracker.track_deallocation(address)
    assert [row[1] for row in tracker.wrong()] == list(range(745, 1001))
    assert tracker.errors()["unknown_frees"] == 1000


def test_a_resize_keeps_the_type_and_one_that_cannot_be_leaves_the_block(core: Any) -> None:
    tracker = tracker_of(core)
    tracker.track_allocation(0x1000, 100, "Pinned")
    tracker.track_reallocation(0x1000, 0x1000, 150)
    tracker.track_reallocation(0x1000, 0x5000, -1)
    tracker.track_reallocation(0x7000, 0x8000, 10)
    assert tracker.totals("Pinned")["live_bytes"] == 150
    assert tracker.totals("unknown")["live_bytes"] == 10
    assert tracker.errors()["bad_sizes"] == tracker.errors()["unknown_frees"] == 1


def test_types_beyond_the_255th_are_counted_together(core: Any) -> None:
    tracker = tracker_of(core)
    for number in range(300):
        tracker.track_allocation(number + 1, 1, f"type {number}")
    assert len(tracker.kinds()) == 256
    assert tracker.totals("(other types)")["live"] == 45
    assert tracker.totals("type 299")["live"] == 0
    assert tracker.totals("type 254")["live"] == 1


def test_what_is_said_while_it_is_switched_off_is_not_heard(core: Any) -> None:
    tracker = tracker_of(core)
    tracker.enabled = False
    tracker.track_allocation(0x1000, 1, "CPU")
    tracker.track_reallocation(1, 2, 3)
    tracker.track_snapshot()
    tracker.track_deallocation(0x1000)
    assert tracker.waiting == 0
    assert not any(tracker.errors().values())


def test_live_blocks_are_told_by_age(core: Any) -> None:
    tracker = tracker_of(core)
    tracker.track_allocation(0x1000, 1, "CPU")
    assert tracker.live(0) == []
    (entry,) = tracker.live(core.now_ns() + 1_000_000)
    assert entry[:3] == (0x1000, 1, 0)


def test_the_first_call_each_call_and_a_full_tape_are_told(core: Any) -> None:
    tracker = tracker_of(core)
    called: list[str] = []
    tracker.call(first=lambda: called.append("first"), each=lambda: called.append("each"))
    tracker.track_allocation(0x1000, 1, "CPU")
    tracker.track_deallocation(0x1000)
    assert called == ["first", "each", "each"]


def test_who_books_more_than_there_is_room_for_has_it_taken(core: Any) -> None:
    tracker = tracker_of(core)
    frames: list[bytes] = []

    def take_all() -> None:
        while frame := tracker.take():
            frames.append(frame)

    tracker.call(full=take_all)
    for _ in range(600_000):
        tracker.track_allocation(0x1000, 1, "CPU")
        tracker.track_deallocation(0x1000)
    assert frames
    assert tracker.errors()["dropped_events"] == 0
    tracker.call()
    tracker.call(full=lambda: None)
    while not tracker.errors()["dropped_events"]:
        tracker.track_snapshot()
    assert tracker.waiting >= 1_000_000


@pytest.mark.threaded
def test_many_events_go_through_the_writer_and_none_is_lost(core: Any, tmp_path: Path) -> None:
    (tmp_path / "rank-00000").mkdir()
    count = 200_000 if core.name == "native" else 5_000
    core.open(str(tmp_path / "rank-00000" / "x"), b"{}")
    tracker = tracker_of(core)
    tracker.attach()
    for address in range(1, count + 1):
        tracker.track_allocation(address << 6, address, "CPU")
    core.close()
    data = b"".join(path.read_bytes() for path in sorted(tmp_path.glob("rank-*/*.frames")))
    rows = [row for row in rows_of(data) if row.name == names.TRACKED_ALLOC]
    assert [row.value for row in rows] == [float(n) for n in range(1, count + 1)]
    assert tracker.errors()["dropped_events"] == 0


@pytest.mark.threaded
def test_threads_book_at_once_and_their_events_say_who(core: Any) -> None:
    tracker = tracker_of(core)
    ids: list[int] = []

    def work(number: int) -> None:
        ids.append(threading.get_native_id())
        for at in range(500):
            tracker.track_allocation((number << 32) + at * 64 + 64, 8, f"thread {number}")
        for at in range(0, 500, 2):
            tracker.track_deallocation((number << 32) + at * 64 + 64, 8)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert tracker.totals()["live_bytes"] == 4 * 250 * 8
    assert not any(tracker.errors().values())
    rows = [row for row in taken(core, tracker) if row.name != names.TRACKED_TOTALS]
    assert len(rows) == 4 * 750
    for number in range(1, 5):
        (track,) = {row.track for row in rows if row.text == f"thread {number}"}
        assert track in ids


def test_a_forked_child_forgets_what_waits_and_keeps_what_is_allocated(core: Any) -> None:
    tracker = tracker_of(core)
    tracker.track_allocation(0x1000, 100, "CPU")
    child = os.fork()
    if child == 0:
        ok = False
        try:
            core.after_fork()
            tracker.track_deallocation(0x1000)
            totals, free = taken(core, tracker)
            ok = totals.arg == 100 and free.value == 100 and free.track == os.getpid()
        finally:
            os._exit(0 if ok else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert len(taken(core, tracker)) == 2


def test_a_tracker_that_calls_its_owner_is_collected(core: Any) -> None:
    class Owner:
        def __init__(self) -> None:
            self.tracker = tracker_of(core)
            self.tracker.call(full=self.anything)

        def anything(self) -> None: ...

    owner = weakref.ref(Owner())
    gc.collect()
    assert owner() is None


Call = tuple[int, int, int, int, int]


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(
        st.tuples(
            st.integers(0, 2),
            st.integers(-1, 12),
            st.integers(-1, 12),
            st.sampled_from([-3, 0, 1, 7, 1000, 1 << 47, 1 << 48, 1 << 70]),
            st.integers(0, 2),
        ),
        max_size=200,
    )
)
def test_both_trackers_agree_and_totals_stay_whole_whatever_is_said(calls: list[Call]) -> None:
    cores = [native_core(), TwinCore()]
    trackers = [tracker_of(core) for core in cores]
    model: dict[int, int] = {}  # address → bytes, as it has to be
    for what, address, other, size, kind in calls:
        possible = 0 <= size < 1 << 48
        for tracker in trackers:
            if what == 0:
                tracker.track_allocation(address, size, "ABC"[kind])
            elif what == 1:
                tracker.track_deallocation(address, size if kind else None)
            else:
                tracker.track_reallocation(address, other, size, None if kind else "A")
        if what == 0 and possible and address > 0:
            model[address] = size
        elif what == 1:
            model.pop(address, None)
        elif what == 2 and possible and other > 0:
            model.pop(address, None)
            model[other] = size
    native, twin = trackers
    assert native.totals() == twin.totals()
    assert native.errors() == twin.errors()
    assert native.kinds() == twin.kinds()
    assert [row[:4] for row in native.wrong()] == [row[:4] for row in twin.wrong()]
    totals = native.totals()
    assert totals["live_bytes"] == sum(model.values())
    assert totals["live"] == len(model)
    assert totals["allocated_bytes"] - totals["freed_bytes"] == totals["live_bytes"]
    assert totals["live_bytes"] <= totals["peak_bytes"]
    assert {entry[:2] for entry in native.live(ALL)} == set(model.items())
    events = [
        [(row.name, row.arg, row.value, row.text) for row in taken(core, tracker)]
        for core, tracker in zip(cores, trackers, strict=True)
    ]
    assert events[0] == events[1]
