"""What a program told us about its memory: events, statistics, and who is given the events."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import NamedTuple, Protocol, runtime_checkable

from stepscope.errors import UsageError
from stepscope.model.event import Batch
from stepscope.model.finding import Location

__all__ = [
    "ALL_EVENTS",
    "MAX_BLOCK_BYTES",
    "Event",
    "EventPublisher",
    "EventRange",
    "IMemoryProfiler",
    "MemoryEvent",
    "MemoryEventType",
    "MemoryStatistics",
    "PotentialLeak",
    "StackTrace",
    "StorageBackend",
    "WrongBooking",
    "WrongBookings",
]

MAX_BLOCK_BYTES = 1 << 48  # no address space has room for a larger block: its size is an error
_MAX_NS = (1 << 63) - 1
_MAX_STEP = (1 << 32) - 1

StackTrace = tuple[Location, ...]  # innermost first


class MemoryEventType(enum.Enum):
    ALLOCATION = "allocation"
    DEALLOCATION = "deallocation"
    REALLOCATION = "reallocation"
    SNAPSHOT = "snapshot"
    GC_START = "gc_start"
    GC_END = "gc_end"


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happened at a moment of a run."""

    time_ns: int  # on the host's monotonic clock
    unix_ns: int = 0  # the same moment on the calendar
    step: int = 0  # optimizer steps seen so far
    thread_id: int = 0  # the kernel's

    @property
    def timestamp(self) -> datetime:
        """When, with its time zone (UTC)."""
        return datetime.fromtimestamp(self.unix_ns / 1e9, UTC)


@dataclass(frozen=True, slots=True)
class MemoryEvent(Event):
    """Something happened to memory. `size_bytes` of a snapshot is all that was allocated then.

    UsageError: a size, an address or a total that cannot be.
    """

    memory_event_type: MemoryEventType
    address: int = 0
    size_bytes: int = 0
    total_allocated_bytes: int = 0  # by all allocations up to this one, itself included
    total_free_bytes: int = 0  # of these, what was given back again
    allocation_type: str = ""  # "GPU", "CPU", "Pinned", or what the program calls it
    allocation_stack_trace: StackTrace = ()  # empty: not taken
    generation: int | None = None  # of a garbage collection

    def __post_init__(self) -> None:
        if not isinstance(self.memory_event_type, MemoryEventType):
            raise UsageError(
                f"memory_event_type={self.memory_event_type!r} is not possible: use a member of"
                " MemoryEventType."
            )
        if not 0 <= self.size_bytes < MAX_BLOCK_BYTES:
            raise UsageError(
                f"size_bytes={self.size_bytes} is not possible: use 0 or more, below 2**48."
            )
        for name in ("address", "total_allocated_bytes", "total_free_bytes", "step"):
            value = getattr(self, name)
            if value < 0:
                raise UsageError(f"{name}={value} is not possible: use 0 or more.")
        if self.total_free_bytes > self.total_allocated_bytes:
            raise UsageError(
                f"total_free_bytes={self.total_free_bytes} is not possible: no more can be free"
                f" than was allocated ({self.total_allocated_bytes})."
            )

    @property
    def current_usage_bytes(self) -> int:
        """What was allocated right after it."""
        return self.total_allocated_bytes - self.total_free_bytes


class WrongBooking(NamedTuple):
    """Something that was said and cannot be true. It left the totals right.

    reason: "unknown_free", "size_mismatch", "double_allocation" or "bad_size".
    """

    reason: str
    address: int
    size_bytes: int  # as it was said; -1: it was not
    allocation_type: str  # "": not known
    time_ns: int
    step: int


class WrongBookings(NamedTuple):
    """How often, and the last of them, oldest first."""

    unknown_frees: int = 0  # of an address that is not allocated
    size_mismatches: int = 0  # freed with another size than it was allocated with
    double_allocations: int = 0  # of an address that is allocated already
    bad_sizes: int = 0  # negative, absurdly large, or at an address that cannot be
    listed: tuple[WrongBooking, ...] = ()

    @property
    def total(self) -> int:
        return sum(self[:4])


@dataclass(frozen=True, slots=True)
class MemoryStatistics:
    """Totals since the profiler was made, exact. A resize is a deallocation and an allocation."""

    total_allocated_bytes: int = 0
    total_freed_bytes: int = 0
    current_usage_bytes: int = 0
    peak_usage_bytes: int = 0
    allocation_count: int = 0
    deallocation_count: int = 0
    average_allocation_size_bytes: int = 0
    usage_by_type: Mapping[str, int] = field(default_factory=dict)  # what is allocated now
    gc_count: int = 0  # garbage collections of Python meanwhile
    total_gc_time: timedelta = timedelta()
    wrong: WrongBookings | None = None  # None: not known by type
    dropped_events: int = 0  # that the timeline lacks; the totals do not


class PotentialLeak(NamedTuple):
    """A block that is old and still allocated."""

    address: int
    size_bytes: int
    stack_trace: StackTrace  # where it was allocated; empty: not taken


class EventRange(NamedTuple):
    """Which events somebody wants; both ends are included."""

    start_ns: int = 0
    end_ns: int = _MAX_NS
    start_step: int = 0
    end_step: int = _MAX_STEP

    def touches(self, first_ns: int, last_ns: int, low_step: int, high_step: int) -> bool:
        """Whether some of what lies between these can be wanted."""
        in_time = first_ns <= self.end_ns and last_ns >= self.start_ns
        return in_time and low_step <= self.end_step and high_step >= self.start_step

    def contains(self, time_ns: int, step: int) -> bool:
        return self.start_ns <= time_ns <= self.end_ns and self.start_step <= step <= self.end_step


ALL_EVENTS = EventRange()


class StorageBackend(Protocol):
    """Keeps events, in columns, in the order in which they come."""

    def store_events(self, batch: Batch) -> None:
        """Batches come one after the other, their events in the order of time."""

    def load_events(self, wanted: EventRange) -> Iterator[Batch]:
        """Every batch that holds some of these events, oldest first. It may hold others too."""

    @property
    def dropped_events(self) -> int:
        """How many were given to it that it no longer has."""

    def close(self) -> None:
        """Nothing comes any more. What is there can still be loaded. Again: nothing happens."""


class EventPublisher(Protocol):
    """Is told of each event as it happens."""

    def publish(self, event: MemoryEvent) -> None: ...


@runtime_checkable
class IMemoryProfiler(Protocol):
    """The interface that the source document gives a memory profiler; MemoryProfiler has it."""

    capture_stack_traces: bool

    @property
    def is_enabled(self) -> bool: ...
    def enable(self) -> None: ...
    def disable(self) -> None: ...
    def track_allocation(self, address: int, size_bytes: int, allocation_type: str) -> None: ...
    def track_deallocation(self, address: int, size_bytes: int) -> None: ...
    def track_snapshot(self) -> None: ...
    def get_statistics(self) -> MemoryStatistics: ...
    def get_statistics_for_type(self, allocation_type: str) -> MemoryStatistics: ...
    def get_events(self, start_step: int, end_step: int) -> Iterable[MemoryEvent]: ...
    def get_allocations_since(self, start_time: datetime) -> Iterable[MemoryEvent]: ...
    def detect_potential_leaks(self) -> Sequence[PotentialLeak]: ...
