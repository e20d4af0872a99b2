"""What is recorded: events in columns, and the same as objects at the edges.

An event is a Span (something lasted), a Sample (something was measured), an Allocation (bytes came
or went) or a Mark (something happened). Recorder, files and analysis hold them in columns; objects
exist for people and tests.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

__all__ = [
    "COLUMNS",
    "Allocation",
    "Batch",
    "Column",
    "Event",
    "EventType",
    "Flag",
    "Mark",
    "Row",
    "Sample",
    "Span",
]


class EventType(enum.IntEnum):
    SPAN = 1
    SAMPLE = 2
    ALLOCATION = 3
    MARK = 4


class Flag(enum.IntFlag):
    FAILED = 1  # an exception left the span
    OPEN = 2  # the span had not ended when this was written; its duration is "so far"


class Column(NamedTuple):
    """A column of the event table; `code` is its struct code."""

    name: str
    code: str


# The order is the order on disk (store/FORMAT.md) and in the native core (native/event.h).
COLUMNS: tuple[Column, ...] = (
    Column("time_ns", "q"),  # monotonic clock of the host
    Column("duration_ns", "q"),  # spans; 0 otherwise
    Column("cpu_start_ns", "q"),  # CPU clock of the thread at time_ns; -1: not read
    Column("cpu_ns", "q"),  # CPU time of the thread within the span; -1: not read
    Column("arg", "q"),  # what it means depends on the name (model/names.py)
    Column("value", "d"),  # likewise
    Column("name", "I"),  # id in the name table
    Column("text", "I"),  # id in the name table; 0: none
    Column("step", "I"),  # optimizer steps seen so far when it was recorded
    Column("track", "I"),  # the thread's id in the kernel
    Column("type", "B"),
    Column("flags", "B"),
)


class Row(NamedTuple):
    """One event as it lies in the columns, names resolved."""

    time_ns: int
    duration_ns: int
    cpu_start_ns: int
    cpu_ns: int
    arg: int
    value: float
    name: str
    text: str
    step: int
    track: int
    type: int
    flags: int


@dataclass(frozen=True, slots=True)
class Span:
    """Something that lasted."""

    name: str
    time_ns: int
    duration_ns: int
    track: int = 0
    arg: int = 0
    value: float = 0.0
    cpu_start_ns: int = -1
    cpu_ns: int = -1
    step: int = 0
    flags: Flag = Flag(0)

    @property
    def end_ns(self) -> int:
        return self.time_ns + self.duration_ns


@dataclass(frozen=True, slots=True)
class Sample:
    """Something that was measured at a moment."""

    name: str
    time_ns: int
    value: float
    arg: int = 0
    track: int = 0
    step: int = 0


@dataclass(frozen=True, slots=True)
class Allocation:
    """Bytes that came (value > 0) or went (value < 0) at an address."""

    name: str
    time_ns: int
    address: int
    size_bytes: int
    track: int = 0
    step: int = 0


@dataclass(frozen=True, slots=True)
class Mark:
    """Something that happened at a moment."""

    name: str
    time_ns: int
    arg: int = 0
    text: str = ""
    track: int = 0
    step: int = 0


Event: TypeAlias = Span | Sample | Allocation | Mark


@dataclass(frozen=True)
class Batch:
    """Events of one process that left the recorder together, in columns.

    Rows stand in the order in which they were recorded by their thread: a span stands where it
    ended, so the spans inside it come before it.
    """

    count: int
    columns: Mapping[str, memoryview]
    names: Mapping[int, str] = field(repr=False)

    def rows(self) -> Iterator[Row]:
        """Every event as a row, names resolved."""
        names = self.names
        lists = {column.name: self.columns[column.name].tolist() for column in COLUMNS}
        lists["name"] = [names[number] for number in lists["name"]]
        lists["text"] = [names[number] if number else "" for number in lists["text"]]
        return map(Row._make, zip(*(lists[column.name] for column in COLUMNS), strict=True))
