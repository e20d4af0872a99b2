"""A run as a value: every process, every event. The only input of analysis."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias

from stepscope.model.event import Batch
from stepscope.model.process import ProcessInfo

__all__ = ["Losses", "Trace"]

Table: TypeAlias = Any  # a pyarrow.Table; this room knows no pyarrow


@dataclass(frozen=True, slots=True)
class Losses:
    """What was recorded and cannot be seen here. All zero: the trace is whole."""

    dropped_events: int = 0  # found their ring full
    lost_events: int = 0  # could not be written to disk
    unreadable_bytes: int = 0  # behind a damaged place in a file, or a batch that a kill cut off
    notes: tuple[str, ...] = ()  # one line for each file that could not be read to its end
    left_out_events: int = 0  # on purpose, so that a long run stays within its limit on disk

    def __bool__(self) -> bool:
        missing = self.dropped_events or self.lost_events or self.left_out_events
        return bool(missing or self.unreadable_bytes or self.notes)


@dataclass(frozen=True)
class Trace:
    """Immutable. Where the events come from is not its business: the store passes loaders in."""

    meta: Mapping[str, Any]  # meta.json; empty when it was lost
    processes: tuple[ProcessInfo, ...]
    load_batches: Callable[[ProcessInfo], Iterator[Batch]] = field(repr=False)
    load_events: Callable[[], Table] = field(repr=False)
    query: Callable[[Table, str], Table] = field(repr=False)
    load_losses: Callable[[], Losses] = field(repr=False)

    def batches(self, process: ProcessInfo) -> Iterator[Batch]:
        """The events of one process in columns, in the order in which they were recorded."""
        return self.load_batches(process)

    @cached_property
    def events(self) -> Table:
        """All events of all processes: the columns of model/event.py and host, rank and pid."""
        return self.load_events()

    @cached_property
    def losses(self) -> Losses:
        return self.load_losses()

    def sql(self, query: str) -> Table:
        """Asks DuckDB. Tables: `events`, and `spans`, `samples`, `allocations`, `marks` by type."""
        return self.query(self.events, query)
