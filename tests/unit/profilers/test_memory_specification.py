"""Every member of the API of specification 001 (C#) is here, under its Python name."""

from __future__ import annotations

import dataclasses
import gc
import inspect
import re
from datetime import UTC, datetime, timedelta

import pytest

import stepscope
from stepscope import (
    CallbackPublisher,
    InMemoryStorage,
    MemoryEvent,
    MemoryEventType,
    MemoryProfiler,
    MemoryStatistics,
)
from tests.specs.blocks import find_specs

SPECS = find_specs()
_TYPE = re.compile(r"public (?:enum|class|interface) (\w+)")
_MEMBER = re.compile(r"^\s+(?:public )?[\w<>(), ]+? (\w+)(?:\(.*?\);| \{ get;.*)")
_VALUE = re.compile(r"^\s+(\w+),?\s+//")


def python_name(name: str) -> str:
    """
    >>> [python_name(name) for name in ("TotalGCTime", "GCStart", "TrackAllocation")]
    ['total_gc_time', 'gc_start', 'track_allocation']
    """
    return re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


def members() -> list[tuple[str, str]]:
    """(type, member) as the document has them."""
    if SPECS is None:
        return []
    (document,) = SPECS.glob("001_*.txt")
    block = document.read_text("utf-8").split("```csharp\n")[1].split("```")[0]
    found, owner = [], ""
    for line in block.splitlines():
        if kind := _TYPE.search(line):
            owner = kind[1].removeprefix("I")
            continue
        member = (_VALUE if owner == "MemoryEventType" else _MEMBER).match(line)
        if member and member[1] != owner:  # constructors are tested below
            found.append((owner, member[1]))
    return found


@pytest.mark.parametrize(("owner", "member"), members())
def test_the_member_is_there(owner: str, member: str) -> None:
    ours = getattr(stepscope, owner)
    name = python_name(member)
    if owner == "MemoryEventType":
        assert name.upper() in ours.__members__
    elif dataclasses.is_dataclass(ours):
        assert name in {field.name for field in dataclasses.fields(ours)}
    else:
        assert hasattr(MemoryProfiler(), name)


@pytest.mark.skipif(SPECS is None, reason="the specifications are not beside the project")
def test_the_document_has_as_many_members_as_we_know_of() -> None:
    owners = [owner for owner, _ in members()]
    counts = {owner: owners.count(owner) for owner in dict.fromkeys(owners)}
    assert counts == {
        "MemoryEventType": 6,
        "MemoryEvent": 7,
        "MemoryStatistics": 10,
        "MemoryProfiler": 15,
    }


def test_both_constructors_are_there_and_defaults_are_those_of_the_document() -> None:
    assert list(inspect.signature(MemoryProfiler).parameters) == ["storage", "event_publisher"]
    for profiler in (
        MemoryProfiler(storage=InMemoryStorage()),
        MemoryProfiler(event_publisher=CallbackPublisher()),
        MemoryProfiler(InMemoryStorage()),
    ):
        assert profiler.snapshot_interval_ms == 1000
        assert profiler.auto_snapshot is True
        assert profiler.max_stack_trace_depth == 10
        assert profiler.capture_stack_traces is False
        assert profiler.is_enabled is True
        profiler.close()


def test_the_interface_works_from_one_end_to_the_other() -> None:
    began = datetime.now(UTC)
    profiler = MemoryProfiler(storage=InMemoryStorage())
    profiler.capture_stack_traces = True
    profiler.track_allocation(0x1000, 1024, "GPU")
    profiler.track_allocation(0x2000, 512, "Pinned")
    profiler.track_deallocation(0x2000, 512)
    profiler.track_snapshot()
    gc.collect()

    statistics = profiler.get_statistics()
    assert isinstance(statistics, MemoryStatistics)
    assert statistics.usage_by_type == {"GPU": 1024, "Pinned": 0}
    assert statistics.gc_count >= 1
    assert isinstance(statistics.total_gc_time, timedelta)
    assert profiler.get_statistics_for_type("Pinned").total_freed_bytes == 512

    events = list(profiler.get_events(0, 10))
    assert all(isinstance(event, MemoryEvent) for event in events)
    assert {event.memory_event_type for event in events} >= set(MemoryEventType) - {
        MemoryEventType.REALLOCATION
    }
    assert len(list(profiler.get_allocations_since(began))) == 2

    ((address, size, trace),) = profiler.detect_potential_leaks(min_age=0)
    assert (address, size) == (0x1000, 1024)
    assert trace[0].file == __file__

    enabled = [profiler.is_enabled]
    profiler.disable()
    enabled.append(profiler.is_enabled)
    profiler.enable()
    assert [*enabled, profiler.is_enabled] == [True, False, True]
    profiler.close()
