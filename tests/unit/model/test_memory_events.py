from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from stepscope import MemoryEvent, MemoryEventType, UsageError
from stepscope.model.memory_events import EventRange


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"size_bytes": -1}, "size_bytes=-1 is not possible"),
        ({"size_bytes": 1 << 48}, "below 2\\*\\*48"),
        ({"address": -1}, "address=-1"),
        ({"step": -1}, "step=-1"),
        ({"total_allocated_bytes": 5, "total_free_bytes": 6}, "no more can be free"),
        ({"memory_event_type": "allocation"}, "MemoryEventType"),
    ],
)
def test_an_event_that_cannot_be_is_refused(fields: dict[str, Any], message: str) -> None:
    right: dict[str, Any] = {"memory_event_type": MemoryEventType.ALLOCATION, "time_ns": 1}
    with pytest.raises(UsageError, match=message):
        MemoryEvent(**right | fields)


def test_an_event_tells_its_moment_and_what_was_allocated_then() -> None:
    event = MemoryEvent(
        MemoryEventType.DEALLOCATION,
        time_ns=5,
        total_allocated_bytes=100,
        total_free_bytes=40,
        unix_ns=86_400_000_000_000,
    )
    assert event.current_usage_bytes == 60
    assert event.timestamp == datetime(1970, 1, 2, tzinfo=UTC)


def test_a_range_touches_what_overlaps_it_in_time_and_steps() -> None:
    wanted = EventRange(10, 20, 3, 4)
    assert wanted.touches(20, 30, 4, 9)
    assert not wanted.touches(21, 30, 4, 9)
    assert not wanted.touches(10, 20, 5, 9)
    assert wanted.contains(10, 3)
    assert not wanted.contains(10, 5)
