"""Items of document 001, the memory profiler, that no other test holds.

docs/specifications.md lists every item with the test that holds it.
"""

from __future__ import annotations

import gc
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stepscope.model.event import Batch
from stepscope.model.memory_events import EventRange
from stepscope.profilers import (
    CallbackPublisher,
    Event,
    EventPublisher,
    IMemoryProfiler,
    InMemoryStorage,
    MemoryEvent,
    MemoryEventType,
    MemoryProfiler,
    StorageBackend,
    UsageError,
)
from stepscope.record.core import core

pytestmark = pytest.mark.timed


class Published:
    """A publisher of the user's own: one method."""

    def __init__(self) -> None:
        self.events: list[MemoryEvent] = []

    def publish(self, event: MemoryEvent) -> None:
        self.events.append(event)


class Kept:
    """A storage of the user's own."""

    def __init__(self) -> None:
        self.batches: list[Batch] = []
        self.is_closed = False

    def store_events(self, batch: Batch) -> None:
        self.batches.append(batch)

    def load_events(self, wanted: EventRange) -> Iterator[Batch]:
        return iter(self.batches)

    @property
    def dropped_events(self) -> int:
        return 0

    def close(self) -> None:
        self.is_closed = True


def sizes(events: Iterator[MemoryEvent] | list[MemoryEvent]) -> list[int]:
    """Of the allocations, in order."""
    kind = MemoryEventType.ALLOCATION
    return [event.size_bytes for event in events if event.memory_event_type is kind]


# ---- the types ----


def test_there_are_six_types_of_memory_events() -> None:
    assert [one.name for one in MemoryEventType] == [
        "ALLOCATION", "DEALLOCATION", "REALLOCATION", "SNAPSHOT", "GC_START", "GC_END",
    ]  # fmt: skip


def test_a_memory_event_is_an_event_with_a_moment_and_a_step() -> None:
    event = MemoryEvent(MemoryEventType.ALLOCATION, time_ns=5, step=3, unix_ns=10**9)
    assert issubclass(MemoryEvent, Event)
    assert isinstance(event, Event)
    assert (event.time_ns, event.step, event.timestamp.second) == (5, 3, 1)


def test_the_profiler_has_the_interface_of_the_document() -> None:
    with MemoryProfiler() as made:
        profiler: IMemoryProfiler = made  # mypy compares the signatures
        assert isinstance(profiler, IMemoryProfiler)
    assert not isinstance(InMemoryStorage(), IMemoryProfiler)


def test_storages_and_publishers_are_protocols_that_a_user_class_fulfils() -> None:
    storage: StorageBackend = Kept()
    publisher: EventPublisher = Published()
    with MemoryProfiler(storage, publisher) as profiler:
        profiler.track_allocation(0x1000, 7, "CPU")
        assert sizes(profiler.get_events()) == [7]


# ---- the constructors ----


def test_a_storage_is_taken_by_position() -> None:
    storage = Kept()
    with MemoryProfiler(storage) as profiler:
        profiler.track_allocation(0x1000, 7, "CPU")
        assert sizes(profiler.get_events()) == [7]
    assert storage.is_closed
    assert storage.batches


@pytest.mark.parametrize("named", [False, True])
def test_a_publisher_is_taken_by_position_or_by_name(named: bool) -> None:
    publisher = Published()
    profiler = MemoryProfiler(event_publisher=publisher) if named else MemoryProfiler(publisher)
    with profiler:
        profiler.track_allocation(0x1000, 7, "CPU")
        assert sizes(publisher.events) == [7]
        assert sizes(profiler.get_events()) == [7], "the last events are kept in memory"


def test_a_storage_and_a_publisher_both_get_every_event() -> None:
    storage, publisher = Kept(), Published()
    with MemoryProfiler(storage, publisher) as profiler:
        profiler.track_allocation(0x1000, 7, "CPU")
        assert (sizes(publisher.events), sizes(profiler.get_events())) == ([7], [7])


def test_a_profiler_needs_no_arguments() -> None:
    with MemoryProfiler() as profiler:
        profiler.track_allocation(0x1000, 7, "CPU")
        assert sizes(profiler.get_events()) == [7]


class OnlyStores:
    def store_events(self, batch: Batch) -> None: ...


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (5, "int as storage: it lacks store_events, load_events, dropped_events, close"),
        ("runs/memory", "str as storage: it lacks store_events"),
        (OnlyStores(), "OnlyStores as storage: it lacks load_events, dropped_events, close"),
        (InMemoryStorage, "InMemoryStorage as storage: it is a class"),
        (CallbackPublisher, "CallbackPublisher as event_publisher: it is a class"),
    ],
)
def test_anything_else_is_refused_at_construction(given: Any, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        MemoryProfiler(given)


def test_what_cannot_publish_is_refused_as_a_publisher() -> None:
    not_a_publisher: Any = InMemoryStorage()
    with pytest.raises(UsageError, match="InMemoryStorage as event_publisher: it lacks publish"):
        MemoryProfiler(event_publisher=not_a_publisher)


def test_two_publishers_are_refused() -> None:
    with pytest.raises(UsageError, match="two publishers"):
        MemoryProfiler(CallbackPublisher(), CallbackPublisher())


# ---- the rest ----


def test_a_snapshot_is_an_event_with_the_current_state() -> None:
    with MemoryProfiler(InMemoryStorage()) as profiler:
        profiler.auto_snapshot = False
        profiler.track_allocation(0x1000, 100, "CPU")
        profiler.track_allocation(0x2000, 50, "GPU")
        profiler.track_deallocation(0x1000, 100)
        profiler.track_snapshot()
        kind = MemoryEventType.SNAPSHOT
        (found,) = [one for one in profiler.get_events() if one.memory_event_type is kind]
    assert (found.size_bytes, found.current_usage_bytes) == (50, 50)
    assert (found.total_allocated_bytes, found.total_free_bytes) == (150, 100)


def test_statistics_of_one_type_are_those_of_its_blocks() -> None:
    with MemoryProfiler(InMemoryStorage()) as profiler:
        profiler.track_allocation(0x1000, 100, "GPU")
        profiler.track_allocation(0x2000, 50, "CPU")
        profiler.track_deallocation(0x1000, 100)
        gpu = profiler.get_statistics_for_type("GPU")
        assert (gpu.total_allocated_bytes, gpu.total_freed_bytes) == (100, 100)
        assert (gpu.peak_usage_bytes, gpu.usage_by_type) == (100, {"GPU": 0})
        assert profiler.get_statistics_for_type("Pinned").allocation_count == 0


def test_a_garbage_collection_has_a_start_an_end_and_a_generation() -> None:
    with MemoryProfiler(InMemoryStorage()) as profiler:
        profiler.track_allocation(0x1000, 1, "CPU")
        before = profiler.get_statistics()
        gc.collect(1)
        after = profiler.get_statistics()
        found = [one for one in profiler.get_events() if one.generation == 1]
    kinds = [one.memory_event_type for one in found[-2:]]
    assert kinds == [MemoryEventType.GC_START, MemoryEventType.GC_END]
    assert after.gc_count > before.gc_count
    assert after.total_gc_time > before.total_gc_time


def test_eight_threads_lose_no_event() -> None:
    def book(number: int) -> None:
        for at in range(1, 10_001):
            address = (number << 32) + at * 64
            profiler.track_allocation(address, 10, "CPU")
            if at % 2:
                profiler.track_deallocation(address, 10)

    with MemoryProfiler() as profiler:
        threads = [threading.Thread(target=book, args=(number,)) for number in range(1, 9)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        found = profiler.get_statistics()
    assert (found.allocation_count, found.deallocation_count) == (80_000, 40_000)
    assert (found.current_usage_bytes, found.dropped_events) == (400_000, 0)


needs_native = pytest.mark.skipif(core.name != "native", reason="the Python twin is slower")


@needs_native
@pytest.mark.parametrize("stacks", [False, True])
def test_a_million_allocations_and_frees_take_less_than_half_a_second_of_cpu(stacks: bool) -> None:
    def cpu_s() -> float:
        with MemoryProfiler() as profiler:
            profiler.auto_snapshot, profiler.capture_stack_traces = False, stacks
            allocate, free = profiler.track_allocation, profiler.track_deallocation
            began = time.thread_time()
            for address in range(64, 64_000_064, 64):
                allocate(address, 64, "CPU")
                free(address, 64)
            return time.thread_time() - began

    assert any(cpu_s() < 0.5 for _ in range(5))


@needs_native
def test_a_million_live_blocks_take_less_than_80_bytes_each() -> None:
    def resident_bytes() -> int:
        pages = Path("/proc/self/statm").read_text("ascii").split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")

    with MemoryProfiler() as profiler:
        profiler.auto_snapshot = False
        before = resident_bytes()
        for address in range(64, 64_000_064, 64):
            profiler.track_allocation(address, 2048, "CPU")
        grown = resident_bytes() - before
        assert profiler.get_statistics().current_usage_bytes == 1_000_000 * 2048
    assert grown < 80_000_000
