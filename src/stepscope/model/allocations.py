"""What an allocator did, as files of other tools tell it. Analysis makes a Memory of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple, TypeAlias

from stepscope.model.finding import Location

__all__ = [
    "NO_STACK",
    "AllocatorAction",
    "AllocatorEvent",
    "AllocatorSnapshot",
    "Block",
    "CategoryChange",
    "CategoryTimeline",
    "Segment",
    "Stack",
]

Stack: TypeAlias = tuple[Location, ...]  # innermost first
NO_STACK: Stack = ()


class AllocatorAction(Enum):
    ALLOCATED = "allocated"
    FREED = "freed"  # and can be used again
    REFUSED = "refused"  # out of memory


class AllocatorEvent(NamedTuple):
    """`at_us`: None: the file tells no times."""

    action: AllocatorAction
    address: int  # 0 where it was refused
    bytes: int
    at_us: int | None
    stack: Stack = NO_STACK


class Block(NamedTuple):
    """A piece of a segment. `bytes`: what it takes; `requested_bytes`: what the program wanted."""

    address: int
    bytes: int
    requested_bytes: int
    in_use: bool
    stack: Stack = NO_STACK


class Segment(NamedTuple):
    """Memory that the allocator got from the device, at once."""

    device: int
    bytes: int
    blocks: tuple[Block, ...]


@dataclass(frozen=True, slots=True)
class AllocatorSnapshot:
    """The state of a caching allocator, and the last things that it did before.

    `events`: by device, the oldest first. They are a window: how it began follows from the state
    at its end.
    """

    segments: tuple[Segment, ...] = ()
    events: Mapping[int, tuple[AllocatorEvent, ...]] = field(default_factory=dict)


class CategoryChange(NamedTuple):
    """`bytes` more (or fewer) of a category; -1 ns: they were there before the file begins."""

    at_ns: int
    category: str
    bytes: int


@dataclass(frozen=True, slots=True)
class CategoryTimeline:
    """Every change of one device's memory, the oldest first."""

    changes: tuple[CategoryChange, ...]
    allocations: int = 0
    frees: int = 0
