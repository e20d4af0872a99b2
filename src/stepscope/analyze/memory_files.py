"""What another tool wrote about memory → Memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from stepscope.analyze.memory_replay import Held, Replay, play_changes, play_events
from stepscope.analyze.user_code import users_place
from stepscope.model.allocations import (
    AllocatorAction,
    AllocatorEvent,
    AllocatorSnapshot,
    CategoryTimeline,
    Segment,
)
from stepscope.model.memory import (
    DeviceMemory,
    Fragmentation,
    Memory,
    Peak,
    PeakPart,
    RefusedAllocation,
)

__all__ = ["fragmentation_of", "memory_of_snapshot", "memory_of_timeline"]

_SNAPSHOT: Final = "cuda snapshot"
_TIMELINE: Final = "torch memory timeline"
_UNNAMED: Final = "the exported device"  # of a timeline: the file does not say which
_PARTS = 200  # stacks of a peak that are told one by one
_FRAMES = 64  # of a stack that is kept
_REFUSED = 100
_NO_HISTORY = (
    "no history was recorded, so this is the moment of the snapshot and not the peak. Call"
    " torch.cuda.memory._record_memory_history() before training."
)
_WINDOW = "there may have been a higher one before the snapshot's window."


def memory_of_snapshot(snapshot: AllocatorSnapshot) -> Memory:
    numbers = {segment.device for segment in snapshot.segments} | snapshot.events.keys()
    devices, parts, notes = [], [], []
    for number in sorted(numbers):
        segments = [one for one in snapshot.segments if one.device == number]
        events = snapshot.events.get(number, ())
        replay = play_events((block for one in segments for block in one.blocks), events)
        name = f"cuda:{number}"
        devices.append(_device(name, replay, events))
        if segments:
            parts.append(fragmentation_of(segments, name))
        notes += _notes(name, replay, events)
    every = [event for events in snapshot.events.values() for event in events]
    return Memory(
        source=_SNAPSHOT,
        devices=tuple(devices),
        fragmentation=tuple(parts),
        refused=_refused(every),
        stack_share=_stack_share(every),
        notes=(*notes, "A snapshot tells no categories and no steps: all of it counts as other."),
    )


def memory_of_timeline(timeline: CategoryTimeline) -> Memory:
    replay = play_changes(timeline.changes)
    device = DeviceMemory(
        _UNNAMED,
        _peak(replay),
        replay.points,
        allocations=timeline.allocations,
        frees=timeline.frees,
        live_bytes=replay.end_bytes,
    )
    notes = (
        "The file names no device, lines or layers: the peak is told by category alone.",
        "What torch calls autograd detail, and what it could not tell, counts as other.",
    )
    return Memory(source=_TIMELINE, devices=(device,), notes=notes)


def fragmentation_of(segments: Sequence[Segment], allocator: str) -> Fragmentation:
    """Of the memory that an allocator took from its device, what nobody uses, and in what pieces.
    Unused parts of segments that are partly in use cannot be given back to the device."""
    reserved = sum(segment.bytes for segment in segments)
    allocated = sum(block.bytes for one in segments for block in one.blocks if block.in_use)
    free = [block.bytes for one in segments for block in one.blocks if not block.in_use]
    split = sum(
        block.bytes
        for segment in segments
        if any(other.in_use for other in segment.blocks)
        for block in segment.blocks
        if not block.in_use
    )
    return Fragmentation(allocator, reserved, allocated, sum(free), max(free, default=0), split)


def _device(name: str, replay: Replay, events: Sequence[AllocatorEvent]) -> DeviceMemory:
    made = sum(event.action is AllocatorAction.ALLOCATED for event in events)
    freed = sum(event.action is AllocatorAction.FREED for event in events)
    return DeviceMemory(
        name,
        _peak(replay),
        replay.points,
        allocations=made,
        frees=freed,
        live_bytes=replay.end_bytes,
    )


def _peak(replay: Replay) -> Peak:
    told = [_part(held) for held in replay.peak[:_PARTS]]
    rest = replay.peak[_PARTS:]
    if rest:
        category = rest[0].category
        blocks = sum(held.blocks for held in rest)
        told.append(PeakPart(category, sum(held.bytes for held in rest), blocks))
    return Peak(
        replay.peak_bytes,
        at_ms=replay.peak_at_ms,
        parts=tuple(told),
        parts_bytes=replay.peak_bytes,
    )


def _part(held: Held) -> PeakPart:
    place = users_place(held.stack)
    return PeakPart(held.category, held.bytes, held.blocks, place, held.stack[:_FRAMES])


def _refused(events: Iterable[AllocatorEvent]) -> tuple[RefusedAllocation, ...]:
    found = [event for event in events if event.action is AllocatorAction.REFUSED]
    return tuple(
        RefusedAllocation(event.bytes, -1, users_place(event.stack), event.stack[:_FRAMES])
        for event in found[:_REFUSED]
    )


def _stack_share(events: Iterable[AllocatorEvent]) -> float | None:
    made = [event for event in events if event.action is AllocatorAction.ALLOCATED]
    return sum(bool(event.stack) for event in made) / len(made) if made else None


def _notes(name: str, replay: Replay, events: Sequence[AllocatorEvent]) -> list[str]:
    if not events:
        return [f"{name}: {_NO_HISTORY}"]
    notes = [f"{name}: the peak is the highest of {len(events):,} events; {_WINDOW}"]
    if any(event.at_us is None for event in events):
        notes.append(f"{name}: the file tells no times: numbers of events stand in their place.")
    if replay.misfits:
        notes.append(
            f"{name}: {replay.misfits:,} events contradict the others and were passed over."
        )
    if len(replay.peak) > _PARTS:
        rest = len(replay.peak) - _PARTS
        notes.append(f"{name}: the {rest:,} smallest stacks of the peak are taken together.")
    return notes
