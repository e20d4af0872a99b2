"""What an allocator did, played again: how much was in use when, and what the peak was made of.

A snapshot holds the state at its end and a window of events before it. Played backwards from the
end, the window gives the state at its start; played forwards from there, memory over time. Blocks
that were there before the window and are gone at its end have no stack: nobody wrote it down.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from stepscope.analyze.memory_points import PointFold
from stepscope.model.allocations import (
    NO_STACK,
    AllocatorAction,
    AllocatorEvent,
    Block,
    CategoryChange,
    Stack,
)
from stepscope.model.memory import CATEGORIES, OTHER, MemoryPoint

__all__ = ["Held", "Replay", "play_changes", "play_events"]

_Live: TypeAlias = dict[int, tuple[int, Stack]]  # by address: bytes, and who allocated them
_AT = {category: place for place, category in enumerate(CATEGORIES)}


class Held(NamedTuple):
    """At the peak, what belongs together."""

    category: str
    stack: Stack
    bytes: int
    blocks: int


@dataclass(frozen=True, slots=True)
class Replay:
    """`misfits`: events that contradict the others, and were passed over."""

    peak_bytes: int
    peak_at_ms: float | None
    peak: tuple[Held, ...]  # largest first
    points: tuple[MemoryPoint, ...]
    end_bytes: int
    misfits: int = 0


class _Window(NamedTuple):
    start: _Live
    fitting: Sequence[AllocatorEvent]
    misfits: int


def play_events(blocks: Iterable[Block], events: Sequence[AllocatorEvent]) -> Replay:
    """`blocks`: all of the device at the end; `events`: its window, the oldest first."""
    end = {block.address: (block.requested_bytes, block.stack) for block in blocks if block.in_use}
    window = _backwards(end, events)
    held = sum(size for size, _ in window.start.values())
    clock = _Clock(window.fitting)
    points = PointFold(len(window.fitting) + 1)
    points.update(0.0, _only_other(held))
    live = dict(window.start)
    highest, highest_after, highest_ms = held, 0, 0.0
    for number, event in enumerate(window.fitting, 1):
        held += _apply(live, event)
        at_ms = clock.ms(number, event)
        points.update(at_ms, _only_other(held))
        if held > highest:
            highest, highest_after, highest_ms = held, number, at_ms
    live = dict(window.start)
    for event in window.fitting[:highest_after]:
        _apply(live, event)
    return Replay(
        highest,
        highest_ms if events else None,
        _together(live),
        points.get() if events else (),
        sum(size for size, _ in end.values()),
        window.misfits,
    )


def play_changes(changes: Sequence[CategoryChange]) -> Replay:
    """Memory by category. What was there before the file begins is where it starts."""
    held, blocks = [0] * len(CATEGORIES), [0] * len(CATEGORIES)
    begins_ns = next((change.at_ns for change in changes if change.at_ns >= 0), 0)
    points = PointFold(sum(not _is_between(changes, at) for at in range(len(changes))))
    highest, highest_ms, highest_held, highest_blocks = 0, 0.0, list(held), list(blocks)
    for at, change in enumerate(changes):
        place = _AT[change.category]
        held[place] += change.bytes
        blocks[place] += 1 if change.bytes > 0 else -1
        if _is_between(changes, at):
            continue
        at_ms = max(0, change.at_ns - begins_ns) / 1e6
        points.update(at_ms, held)
        if sum(held) > highest:
            highest, highest_ms = sum(held), at_ms
            highest_held, highest_blocks = list(held), list(blocks)
    parts = (
        Held(*one)
        for one in zip(
            CATEGORIES, [NO_STACK] * len(held), highest_held, highest_blocks, strict=True
        )
    )
    largest_first = sorted((part for part in parts if part.bytes), key=lambda part: -part.bytes)
    return Replay(highest, highest_ms, tuple(largest_first), points.get(), sum(held))


def _is_between(changes: Sequence[CategoryChange], at: int) -> bool:
    """Whether nobody ever saw this state: before the file begins, or while a tensor goes from one
    category to another."""
    if at + 1 == len(changes):
        return False
    change, following = changes[at], changes[at + 1]
    if change.at_ns < 0:
        return following.at_ns < 0
    same = change.at_ns == following.at_ns
    return same and change.bytes < 0 and following.bytes == -change.bytes


def _backwards(end: _Live, events: Sequence[AllocatorEvent]) -> _Window:
    live, fitting, misfits = dict(end), [], 0
    for event in reversed(events):
        if event.action is AllocatorAction.REFUSED:
            continue
        freed = event.action is AllocatorAction.FREED
        if freed == (event.address in live):
            # Freed though it is in use later without a new allocation, or allocated and neither
            # freed nor there at the end.
            misfits += 1
            continue
        if freed:
            live[event.address] = (event.bytes, NO_STACK)
        else:
            del live[event.address]
        fitting.append(event)
    fitting.reverse()
    return _Window(live, fitting, misfits)


def _apply(live: _Live, event: AllocatorEvent) -> int:
    """How many bytes more are in use."""
    if event.action is AllocatorAction.ALLOCATED:
        live[event.address] = (event.bytes, event.stack)
        return event.bytes
    size, _ = live.pop(event.address)
    return -size


def _only_other(held: int) -> list[int]:
    return [held if category == OTHER else 0 for category in CATEGORIES]


def _together(live: _Live) -> tuple[Held, ...]:
    sizes: Counter[Stack] = Counter()
    blocks: Counter[Stack] = Counter()
    for size, stack in live.values():
        sizes[stack] += size
        blocks[stack] += 1
    return tuple(Held(OTHER, stack, size, blocks[stack]) for stack, size in sizes.most_common())


class _Clock:
    """Time since the first event; where a file tells none, the number of the event stands for it
    (a note says so)."""

    def __init__(self, events: Sequence[AllocatorEvent]) -> None:
        times = [event.at_us for event in events if event.at_us is not None]
        self._begins_us = times[0] if len(times) == len(events) and times else None
        self._last_ms = 0.0

    def ms(self, number: int, event: AllocatorEvent) -> float:
        if self._begins_us is None or event.at_us is None:
            return float(number)
        self._last_ms = max(self._last_ms, (event.at_us - self._begins_us) / 1e3)
        return self._last_ms
