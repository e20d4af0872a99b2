from __future__ import annotations

import csv
import gc
import os
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepscope import (
    CallbackPublisher,
    InMemoryStorage,
    MemoryEvent,
    MemoryEventType,
    MemoryProfiler,
    RunFolderStorage,
    UsageError,
    open_trace,
)
from stepscope.model import names
from stepscope.session.inside import inside

TRACKED = {
    MemoryEventType.ALLOCATION,
    MemoryEventType.DEALLOCATION,
    MemoryEventType.REALLOCATION,
}


@pytest.fixture(params=["own recording", "in memory", "run folder", "publisher"])
def profiler(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[MemoryProfiler]:
    """Each way to keep events in turn."""
    makers: dict[str, Callable[[], MemoryProfiler]] = {
        "own recording": MemoryProfiler,
        "in memory": lambda: MemoryProfiler(storage=InMemoryStorage()),
        "run folder": lambda: MemoryProfiler(storage=RunFolderStorage(tmp_path / "run")),
        "publisher": lambda: MemoryProfiler(event_publisher=CallbackPublisher()),
    }
    made = makers[request.param]()
    yield made
    made.close()


def tracked(events: Iterator[MemoryEvent]) -> list[MemoryEvent]:
    return [event for event in events if event.memory_event_type in TRACKED]


def test_statistics_are_the_sums_of_what_was_said(profiler: MemoryProfiler) -> None:
    profiler.track_allocation(0x1000, 100, "GPU")
    profiler.track_allocation(0x2000, 50, "CPU")
    profiler.track_deallocation(0x1000, 100)
    profiler.track_allocation(0x3000, 30, "CPU")
    found = profiler.get_statistics()
    assert found.total_allocated_bytes == 180
    assert found.total_freed_bytes == 100
    assert found.current_usage_bytes == 80
    assert found.peak_usage_bytes == 150
    assert (found.allocation_count, found.deallocation_count) == (3, 1)
    assert found.average_allocation_size_bytes == 60
    assert found.usage_by_type == {"GPU": 0, "CPU": 80}
    of_gpu = profiler.get_statistics_for_type("GPU")
    assert (of_gpu.total_allocated_bytes, of_gpu.current_usage_bytes) == (100, 0)
    assert of_gpu.peak_usage_bytes == 100
    assert profiler.get_statistics_for_type("Pinned").allocation_count == 0


def test_events_carry_what_was_said_and_the_totals_at_their_time(profiler: MemoryProfiler) -> None:
    before = datetime.now(UTC)
    profiler.track_allocation(0x1000, 100, "GPU")
    profiler.track_reallocation(0x1000, 0x5000, 160)
    profiler.track_deallocation(0x5000)
    alloc, resize, free = tracked(profiler.get_events())
    assert alloc.memory_event_type is MemoryEventType.ALLOCATION
    assert (alloc.address, alloc.size_bytes, alloc.allocation_type) == (0x1000, 100, "GPU")
    assert (alloc.total_allocated_bytes, alloc.total_free_bytes) == (100, 0)
    assert resize.memory_event_type is MemoryEventType.REALLOCATION
    assert (resize.address, resize.size_bytes, resize.allocation_type) == (0x5000, 160, "GPU")
    assert (resize.total_allocated_bytes, resize.total_free_bytes) == (260, 100)
    assert free.memory_event_type is MemoryEventType.DEALLOCATION
    assert (free.size_bytes, free.current_usage_bytes) == (160, 0)
    assert alloc.thread_id == threading.get_native_id()
    assert (
        before - timedelta(seconds=1) < alloc.timestamp < datetime.now(UTC) + timedelta(seconds=1)
    )


def test_events_are_found_by_step_and_by_time(profiler: MemoryProfiler) -> None:
    recorder = inside().recorder
    moments = []
    for step in range(5):
        recorder.set_step(step)
        time.sleep(0.002)
        moments.append(datetime.now(UTC))
        time.sleep(0.002)
        profiler.track_allocation(0x1000 + step * 64, step + 1, "CPU")
    recorder.set_step(0)
    assert [event.step for event in tracked(profiler.get_events(1, 3))] == [1, 2, 3]
    assert [event.step for event in tracked(profiler.get_events())] == [0, 1, 2, 3, 4]
    between = tracked(profiler.get_events_between(moments[1], moments[3]))
    assert [event.size_bytes for event in between] == [2, 3]
    assert between[0].total_allocated_bytes == 3
    since = list(profiler.get_allocations_since(moments[3]))
    assert [event.size_bytes for event in since] == [4, 5]
    first = between[0]
    assert tracked(profiler.get_events_between(first.time_ns, first.time_ns)) == [first]
    assert tracked(profiler.get_events(7, 9)) == []


def test_wrong_bookings_are_listed_with_what_was_said(profiler: MemoryProfiler) -> None:
    profiler.track_allocation(0x1000, 100, "CPU")
    profiler.track_deallocation(0xBAD, 7)
    profiler.track_allocation(0x1000, 40, "GPU")
    profiler.track_allocation(0x2000, -1, "CPU")
    profiler.track_deallocation(0x1000, 41)
    wrong = profiler.get_statistics().wrong
    assert wrong is not None
    assert wrong[:4] == (1, 1, 1, 1)
    assert wrong.total == 4
    assert [
        (one.reason, one.address, one.size_bytes, one.allocation_type) for one in wrong.listed
    ] == [
        ("unknown_free", 0xBAD, 7, ""),
        ("double_allocation", 0x1000, 40, "GPU"),
        ("bad_size", 0x2000, -1, "CPU"),
        ("size_mismatch", 0x1000, 41, "GPU"),
    ]
    assert profiler.get_statistics().current_usage_bytes == 0


def allocate_here(profiler: MemoryProfiler) -> None:
    profiler.track_allocation(0x9000, 64, "CPU")


def test_leaks_are_old_blocks_with_the_place_that_made_them(profiler: MemoryProfiler) -> None:
    profiler.capture_stack_traces = True
    allocate_here(profiler)
    profiler.track_allocation(0xA000, 640, "CPU")
    profiler.track_allocation(0xB000, 1, "CPU")
    profiler.track_deallocation(0xB000)
    assert profiler.detect_potential_leaks() == []  # all of them are young
    time.sleep(0.01)
    largest, (address, size, trace) = profiler.detect_potential_leaks(min_age=0.005)
    assert (largest.address, largest.size_bytes) == (0xA000, 640)
    assert (address, size) == (0x9000, 64)
    assert trace[0].function == "allocate_here"
    assert trace[0].line == allocate_here.__code__.co_firstlineno + 1
    assert trace[1].function is not None
    assert len(trace) == profiler.max_stack_trace_depth == 10
    assert profiler.detect_potential_leaks(timedelta(hours=1)) == []
    with pytest.raises(UsageError, match="min_age"):
        profiler.detect_potential_leaks(-1)


def test_stack_traces_are_taken_only_when_wanted_and_as_deep(profiler: MemoryProfiler) -> None:
    assert not profiler.capture_stack_traces
    allocate_here(profiler)
    profiler.capture_stack_traces = True
    profiler.max_stack_trace_depth = 2
    profiler.track_reallocation(0x9000, 0x9100, 8)
    plain, deep = tracked(profiler.get_events())
    assert plain.allocation_stack_trace == ()
    assert len(deep.allocation_stack_trace) == 2
    for depth in (0, 257, True, 1.5):
        with pytest.raises(UsageError, match="max_stack_trace_depth"):
            profiler.max_stack_trace_depth = depth  # type: ignore[assignment]


def test_a_profiler_that_is_disabled_books_nothing(profiler: MemoryProfiler) -> None:
    enabled = [profiler.is_enabled]
    profiler.disable()
    profiler.track_allocation(0x1000, 1, "CPU")
    enabled.append(profiler.is_enabled)
    assert enabled == [True, False]
    profiler.enable()
    profiler.track_allocation(0x2000, 2, "CPU")
    assert profiler.get_statistics().total_allocated_bytes == 2


def test_snapshots_are_taken_when_asked_and_by_themselves(profiler: MemoryProfiler) -> None:
    assert (profiler.auto_snapshot, profiler.snapshot_interval_ms) == (True, 1000)
    profiler.auto_snapshot = False
    profiler.track_allocation(0x1000, 70, "CPU")
    profiler.track_snapshot()

    def snapshots() -> list[MemoryEvent]:
        kind = MemoryEventType.SNAPSHOT
        return [event for event in profiler.get_events() if event.memory_event_type is kind]

    (snapshot,) = snapshots()
    assert (snapshot.size_bytes, snapshot.address, snapshot.allocation_type) == (70, 0, "")
    profiler.snapshot_interval_ms = 5
    profiler.auto_snapshot = True
    profiler.track_allocation(0x2000, 1, "CPU")  # the timer begins with the next event
    deadline = time.monotonic() + 20
    while len(snapshots()) < 4 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert len(snapshots()) >= 4
    profiler.auto_snapshot = False
    count = len(snapshots())
    time.sleep(0.03)
    assert len(snapshots()) == count
    for interval in (0, -1, 1.5):
        with pytest.raises(UsageError, match="snapshot_interval_ms"):
            profiler.snapshot_interval_ms = interval  # type: ignore[assignment]


def test_collections_stand_in_the_timeline_and_the_statistics(profiler: MemoryProfiler) -> None:
    before = profiler.get_statistics().gc_count
    profiler.track_allocation(0x1000, 70, "CPU")
    gc.disable()
    gc.collect()
    gc.enable()
    found = profiler.get_statistics()
    assert found.gc_count == before + 1
    assert found.total_gc_time > timedelta()
    start, end = [event for event in profiler.get_events() if event.generation == 2][-2:]
    assert start.memory_event_type is MemoryEventType.GC_START
    assert end.memory_event_type is MemoryEventType.GC_END
    assert start.time_ns < end.time_ns
    assert end.total_allocated_bytes == 70


def test_a_closed_profiler_can_be_asked_and_books_nothing_more(profiler: MemoryProfiler) -> None:
    with profiler:
        profiler.track_allocation(0x1000, 70, "CPU")
    profiler.close()
    profiler.enable()
    profiler.track_allocation(0x2000, 70, "CPU")
    assert not profiler.is_enabled
    assert profiler.get_statistics().allocation_count == 1
    assert len(tracked(profiler.get_events())) == 1


def test_threads_may_all_book_at_once(profiler: MemoryProfiler) -> None:
    profiler.capture_stack_traces = True

    def work(number: int) -> None:
        for at in range(300):
            address = (number << 32) + (at + 1) * 64
            profiler.track_allocation(address, 10, f"type {number}")
            if at % 3:
                profiler.track_deallocation(address, 10)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = profiler.get_statistics()
    assert found.current_usage_bytes == 4 * 100 * 10
    assert found.allocation_count == 4 * 300
    assert found.wrong is not None
    assert found.wrong.total == 0
    assert found.dropped_events == 0
    assert len(tracked(profiler.get_events())) == 4 * 500
    assert len(profiler.detect_potential_leaks(0)) == 4 * 100


def test_two_profilers_do_not_see_each_other() -> None:
    with MemoryProfiler() as one, MemoryProfiler() as other:
        one.track_allocation(0x1000, 1, "CPU")
        other.track_allocation(0x1000, 2, "CPU")
        assert [event.size_bytes for event in tracked(one.get_events())] == [1]
        assert [event.size_bytes for event in tracked(other.get_events())] == [2]


def test_a_publisher_is_told_at_once_and_may_book_itself() -> None:
    seen: list[tuple[MemoryEventType, int]] = []

    def remember(event: MemoryEvent) -> None:
        seen.append((event.memory_event_type, event.size_bytes))
        if event.size_bytes == 1:
            books.track_allocation(0x2000, 2, "CPU")

    publisher = CallbackPublisher(remember)
    with MemoryProfiler(event_publisher=publisher) as books:
        books.auto_snapshot = False
        books.track_allocation(0x1000, 1, "CPU")
        assert seen == [(MemoryEventType.ALLOCATION, 1), (MemoryEventType.ALLOCATION, 2)]
        publisher.subscribers.clear()
        books.track_deallocation(0x1000)
        assert len(seen) == 2


def test_with_both_each_event_is_stored_and_published() -> None:
    seen: list[MemoryEvent] = []
    storage = InMemoryStorage()
    publisher = CallbackPublisher(seen.append)
    with MemoryProfiler(storage=storage, event_publisher=publisher) as profiler:
        profiler.auto_snapshot = False
        profiler.track_allocation(0x1000, 1, "CPU")
        assert tracked(profiler.get_events()) == tracked(iter(seen))


def test_a_publisher_or_storage_that_fails_does_not_stop_the_program() -> None:
    class Full(InMemoryStorage):
        def store_events(self, batch: object) -> None:
            raise OSError("the disk is full")

    def fail(event: MemoryEvent) -> None:
        raise ValueError("no")

    failures = inside().recorder.failures
    before = dict(failures)
    with MemoryProfiler(storage=Full(), event_publisher=CallbackPublisher(fail)) as profiler:
        profiler.auto_snapshot = False
        profiler.track_allocation(0x1000, 1, "CPU")
        assert profiler.get_statistics().allocation_count == 1
        assert profiler.get_statistics().dropped_events >= 1
    for place in ("storing memory events", "publishing a memory event"):
        assert failures[place] > before.get(place, 0)


def test_a_run_folder_can_be_opened_later_with_the_stacks(tmp_path: Path) -> None:
    with MemoryProfiler(storage=RunFolderStorage(tmp_path / "run")) as profiler:
        profiler.capture_stack_traces = True
        allocate_here(profiler)
    trace = open_trace(tmp_path / "run")
    (process,) = trace.processes
    rows = [row for batch in trace.batches(process) for row in batch.rows()]
    (alloc,) = [row for row in rows if row.name == names.TRACKED_ALLOC]
    frames = {row.arg & 0xFFFFFFFF: row.text for row in rows if row.name == names.TRACKED_FRAME}
    assert frames[alloc.cpu_start_ns].endswith(f"\tallocate_here\t{__file__}")


@pytest.mark.parametrize("end", ["", "del profiler"])
def test_a_program_that_does_not_close_its_profiler_loses_nothing(tmp_path: Path, end: str) -> None:
    program = (
        "from stepscope import MemoryProfiler, RunFolderStorage\n"
        "profiler = MemoryProfiler(storage=RunFolderStorage('run'))\n"
        "profiler.track_allocation(0x1000, 7, 'CPU')\n"
    )
    command = [sys.executable, "-W", "error", "-c", program + end]
    subprocess.run(command, cwd=tmp_path, check=True, timeout=60)
    trace = open_trace(tmp_path / "run")
    rows = [row for batch in trace.batches(trace.processes[0]) for row in batch.rows()]
    assert [row.value for row in rows if row.name == names.TRACKED_ALLOC] == [7.0]


def test_a_profiler_that_nobody_has_any_more_is_collected() -> None:
    profiler = MemoryProfiler()
    profiler.snapshot_interval_ms = 5
    profiler.track_allocation(0x1000, 1, "CPU")
    gone = weakref.ref(profiler)
    del profiler
    deadline = time.monotonic() + 20
    while gone() is not None and time.monotonic() < deadline:
        gc.collect()
        time.sleep(0.01)
    assert gone() is None


def test_a_forked_child_goes_on_with_what_is_allocated_and_takes_its_own_snapshots() -> None:
    profiler = MemoryProfiler()
    profiler.snapshot_interval_ms = 5
    profiler.track_allocation(0x1000, 100, "CPU")
    child = os.fork()
    if child == 0:
        ok = False
        try:
            profiler.track_deallocation(0x1000, 100)
            deadline = time.monotonic() + 20
            kinds: set[MemoryEventType] = set()
            while MemoryEventType.SNAPSHOT not in kinds and time.monotonic() < deadline:
                time.sleep(0.01)
                kinds = {event.memory_event_type for event in profiler.get_events()}
            free = tracked(profiler.get_events())[0]
            ok = (
                MemoryEventType.SNAPSHOT in kinds
                and profiler.get_statistics().current_usage_bytes == 0
                and (free.total_allocated_bytes, free.total_free_bytes) == (100, 100)
            )
        finally:
            os._exit(0 if ok else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert profiler.get_statistics().current_usage_bytes == 100
    profiler.close()


Call = tuple[int, int, int, int]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.integers(0, 3), st.integers(-2, 9), st.integers(-2, 9), st.integers(-5, 1 << 49)
        ),
        max_size=60,
    )
)
def test_statistics_stay_whole_whatever_is_said(calls: list[Call]) -> None:
    live: dict[int, int] = {}
    peak = 0
    with MemoryProfiler(storage=InMemoryStorage()) as profiler:
        profiler.auto_snapshot = False
        for what, address, other, size in calls:
            if what == 0:
                profiler.track_allocation(address, size, f"type {other}")
                if address > 0 and 0 <= size < 1 << 48:
                    live[address] = size
            elif what == 1:
                profiler.track_deallocation(address, size)
                live.pop(address, None)
            elif what == 2:
                profiler.track_reallocation(address, other, size)
                if other > 0 and 0 <= size < 1 << 48:
                    live.pop(address, None)
                    live[other] = size
            else:
                profiler.track_snapshot()
            peak = max(peak, sum(live.values()))
        found = profiler.get_statistics()
        events = list(profiler.get_events())
    assert found.current_usage_bytes == sum(live.values()) == sum(found.usage_by_type.values())
    assert found.total_allocated_bytes - found.total_freed_bytes == found.current_usage_bytes
    assert found.peak_usage_bytes == peak
    assert found.allocation_count - found.deallocation_count == len(live)
    last = [event for event in events if event.memory_event_type in TRACKED][-1:]
    assert [event.current_usage_bytes for event in last] in ([], [found.current_usage_bytes])


def test_the_timeline_is_written_as_a_table(tmp_path: Path) -> None:
    with MemoryProfiler(storage=InMemoryStorage()) as profiler:
        profiler.auto_snapshot = False
        profiler.track_allocation(0x1000, 100, "GPU")
        profiler.track_allocation(0x2000, 50, "CPU")
        profiler.track_deallocation(0x1000)
        path = profiler.export_timeline(tmp_path / "timeline.csv")
        with pytest.raises(UsageError, match="another place"):
            profiler.export_timeline(tmp_path / "nowhere" / "timeline.csv")
    with path.open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["allocation_type"]]
    told = [(row["event"], row["size_bytes"], row["current_usage_bytes"]) for row in rows]
    assert told == [
        ("allocation", "100", "100"),
        ("allocation", "50", "150"),
        ("deallocation", "100", "50"),
    ]
