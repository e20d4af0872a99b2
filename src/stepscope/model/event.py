"""What is recorded: events in columns, and the same as rows at the edges.

An event is a span (something lasted), a sample (something was measured), an allocation (bytes came
or went) or a mark (something happened). Recorder, files and analysis hold them in columns; rows
exist for people and tests.
"""

from __future__ import annotations

import enum
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import repeat
from typing import Any, NamedTuple

__all__ = [
    "COLUMNS",
    "Batch",
    "Column",
    "EventType",
    "Flag",
    "Row",
    "joined",
]


_MANY = 4  # times as many events as are asked for make finding them one by one worth while


class EventType(enum.IntEnum):
    SPAN = 1
    SAMPLE = 2
    ALLOCATION = 3
    MARK = 4


class Flag(enum.IntFlag):
    FAILED = 1  # an exception left the span
    OPEN = 2  # the span had not ended when this was written; its duration is "so far"
    NATIVE = 4  # a stack whose thread ran, or waited in, C that Python called (native/opcodes.h)


class Column(NamedTuple):
    """A column of the event table; `code` is its struct code."""

    name: str
    code: str


# The order is the order on disk (store/FORMAT.md) and in the native core (native/event.h).
COLUMNS: tuple[Column, ...] = (
    Column("time_ns", "q"),  # monotonic clock of the host
    Column("duration_ns", "q"),  # spans; 0 otherwise
    # CPU clock of the thread at time_ns; -1: not read; below: read at the end alone, -2 less it
    Column("cpu_start_ns", "q"),
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


@dataclass(frozen=True)
class Batch:
    """Events of one process that left the recorder together, in columns.

    Rows stand in the order in which they were recorded by their thread: a span stands where it
    ended, so the spans inside it come before it.
    """

    count: int
    columns: Mapping[str, memoryview]
    names: Mapping[int, str] = field(repr=False)

    @cached_property
    def by_name(self) -> Mapping[int, Sequence[int]]:
        """Number of a name that is there → places of its events in the columns, in order. Several
        ask for a few of many events: they are gone through once."""
        found: defaultdict[int, list[int]] = defaultdict(list)
        for place, number in enumerate(self.columns["name"].tolist()):
            found[number].append(place)
        return found

    def places(self, wanted: Collection[str]) -> Iterator[tuple[str, int]]:
        """Name and place in the columns of every event with one of these names, in order."""
        numbers = {number: name for number, name in self.names.items() if name in wanted}
        if not numbers:
            return
        there = [(numbers[number], at) for number, at in self.by_name.items() if number in numbers]
        if len(there) == 1:
            name, places = there[0]
            yield from zip(repeat(name), places)
        elif _MANY * sum(len(places) for _, places in there) < self.count:
            for place, name in sorted((place, name) for name, places in there for place in places):
                yield name, place
        else:  # quicker than to sort them
            for place, number in enumerate(self.columns["name"].tolist()):
                if number in numbers:
                    yield numbers[number], place

    def part(self, start: int, end: int) -> Batch:
        """Some rows of it; nothing is copied."""
        if start == 0 and end >= self.count:
            return self
        columns = {name: column[start:end] for name, column in self.columns.items()}
        return Batch(end - start, columns, self.names)

    def rows(self) -> Iterator[Row]:
        """Every event as a row, names resolved."""
        names = self.names
        lists: dict[str, list[Any]] = {
            column.name: self.columns[column.name].tolist() for column in COLUMNS
        }
        lists["name"] = [names[number] for number in lists["name"]]
        lists["text"] = [names[number] if number else "" for number in lists["text"]]
        return map(Row._make, zip(*(lists[column.name] for column in COLUMNS), strict=True))


def joined(batches: Iterable[Batch]) -> list[Batch]:
    """The same events in fewer batches: those in a row that have their names in common are one.
    What is done once for each batch is done less often."""
    groups: list[list[Batch]] = []
    for batch in batches:
        if groups and groups[-1][0].names is batch.names:
            groups[-1].append(batch)
        else:
            groups.append([batch])
    return [group[0] if len(group) == 1 else _join(group) for group in groups]


def _join(batches: list[Batch]) -> Batch:
    columns: dict[str, memoryview] = {}
    for column in COLUMNS:
        values: Any = memoryview(b"".join(batch.columns[column.name] for batch in batches))
        columns[column.name] = values.cast(column.code)
    return Batch(sum(batch.count for batch in batches), columns, batches[0].names)
