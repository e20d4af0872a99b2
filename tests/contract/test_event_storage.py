"""What every storage and every publisher of memory events promises. A new one is added below."""

from __future__ import annotations

import threading
from array import array
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from stepscope import CallbackPublisher, InMemoryStorage, RunFolderStorage
from stepscope.model import names
from stepscope.model.event import COLUMNS, Batch, EventType
from stepscope.model.memory_events import (
    ALL_EVENTS,
    EventPublisher,
    EventRange,
    MemoryEvent,
    MemoryEventType,
    StorageBackend,
)

STORAGES: dict[str, Callable[[Path], StorageBackend]] = {
    "in memory": lambda folder: InMemoryStorage(),
    "run folder": lambda folder: RunFolderStorage(folder / "run"),
}
PUBLISHERS: dict[str, Callable[[list[MemoryEvent]], EventPublisher]] = {
    "callbacks": lambda seen: CallbackPublisher(seen.append),
}

NAMES = {7: names.TRACKED_ALLOC, 8: names.TRACKED_TOTALS, 9: "CPU"}


@pytest.fixture(params=STORAGES)
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[StorageBackend]:
    made = STORAGES[request.param](tmp_path)
    yield made
    made.close()


def batch(first_ns: int, count: int, step: int = 0) -> Batch:
    """`count` allocations, 10 ns apart; addresses are their times."""
    times = [first_ns, *(first_ns + 10 * number for number in range(count))]
    values: dict[str, list[int]] = {
        "time_ns": times,
        "arg": [0, *times[1:]],
        "value": [0] + [64] * count,
        "name": [8] + [7] * count,
        "text": [0] + [9] * count,
        "step": [step] * (count + 1),
        "type": [int(EventType.ALLOCATION)] * (count + 1),
    }
    columns = {
        column.name: memoryview(array(column.code, values.get(column.name, [0] * (count + 1))))
        for column in COLUMNS
    }
    return Batch(count + 1, columns, NAMES)


def times(storage: StorageBackend, wanted: EventRange) -> list[int]:
    return [
        row.time_ns
        for found in storage.load_events(wanted)
        for row in found.rows()
        if row.name == names.TRACKED_ALLOC and wanted.contains(row.time_ns, row.step)
    ]


def test_what_was_stored_is_loaded_in_order(storage: StorageBackend) -> None:
    stored = [batch(1000, 3), batch(2000, 2, step=1)]
    for one in stored:
        storage.store_events(one)
    assert [list(found.rows()) for found in storage.load_events(ALL_EVENTS)] == [
        list(one.rows()) for one in stored
    ]


def test_only_what_can_hold_wanted_events_is_loaded(storage: StorageBackend) -> None:
    for number in range(100):
        storage.store_events(batch(1000 * number, 3, step=number))
    assert times(storage, EventRange(start_ns=50_010, end_ns=51_010)) == [
        50_010, 50_020, 51_000, 51_010,
    ]  # fmt: skip
    assert times(storage, EventRange(start_step=98)) == [
        98_000,
        98_010,
        98_020,
        99_000,
        99_010,
        99_020,
    ]
    assert len(list(storage.load_events(EventRange(start_step=7, end_step=7)))) == 1
    assert list(storage.load_events(EventRange(start_ns=200_000))) == []


def test_what_comes_later_is_found_too(storage: StorageBackend) -> None:
    assert times(storage, ALL_EVENTS) == []
    storage.store_events(batch(1000, 1))
    assert times(storage, ALL_EVENTS) == [1000]
    storage.store_events(batch(2000, 1))
    assert times(storage, ALL_EVENTS) == [1000, 2000]


def test_a_closed_one_still_has_what_it_had(storage: StorageBackend) -> None:
    storage.store_events(batch(1000, 2))
    storage.close()
    storage.close()
    assert times(storage, ALL_EVENTS) == [1000, 1010]
    assert storage.dropped_events == 0


def test_many_threads_may_store_and_load(storage: StorageBackend) -> None:
    def work() -> None:
        for number in range(50):
            storage.store_events(batch(1000 * number, 2))
            list(storage.load_events(ALL_EVENTS))

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(times(storage, ALL_EVENTS)) == 3 * 50 * 2


@pytest.mark.parametrize("kind", PUBLISHERS)
def test_a_publisher_passes_every_event_on(kind: str) -> None:
    seen: list[MemoryEvent] = []
    publisher = PUBLISHERS[kind](seen)
    events = [
        MemoryEvent(MemoryEventType.SNAPSHOT, time_ns=number, unix_ns=number) for number in range(3)
    ]
    for event in events:
        publisher.publish(event)
    assert seen == events
