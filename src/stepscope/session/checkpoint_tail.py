"""The last events that a checkpoint profiler recorded, as they are read back."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import NamedTuple

from stepscope.model import names
from stepscope.model.checkpoint_events import CheckpointEvent, event_type
from stepscope.model.event import Batch
from stepscope.model.process import ProcessInfo

__all__ = ["EventTail"]

_MOST_EVENTS = 16_384
_COLUMNS = ("name", "cpu_ns", "time_ns", "duration_ns", "arg", "cpu_start_ns", "text")


class _Row(NamedTuple):
    time_ns: int
    duration_ns: int
    memory_bytes: int
    held_bytes: int
    text: str  # type and layer


class EventTail:
    """A follower of the session. number: of the profile whose events it takes."""

    def __init__(self, number: int, unix_offset_ns: int, forked: Callable[[], None]) -> None:
        self._number, self._unix_offset_ns, self._forked = number, unix_offset_ns, forked
        self._rows: deque[_Row] = deque(maxlen=_MOST_EVENTS)

    def update(self, process: ProcessInfo, batches: Iterable[Batch]) -> None:
        if process.pid != os.getpid():
            return
        for batch in batches:
            numbers = set(batch.columns["name"].tolist())
            found = {n for n in numbers if batch.names[n] == names.CHECKPOINTING_EVENT}
            if found:
                self._take(batch, found.pop())

    def _take(self, batch: Batch, number: int) -> None:
        columns = (batch.columns[name].tolist() for name in _COLUMNS)
        for name, profile, time_ns, duration_ns, size, held, text in zip(*columns, strict=True):
            if name == number and profile == self._number:
                row = _Row(time_ns, duration_ns, size, held, batch.names[text])
                self._rows.append(row)

    def after_fork(self) -> None:
        self._rows.clear()
        self._forked()

    def events(self) -> list[CheckpointEvent]:
        """Newest last, of all threads."""
        return [self._event(row) for row in sorted(self._rows, key=lambda row: row.time_ns)]

    def _event(self, row: _Row) -> CheckpointEvent:
        kind, _, layer = row.text.partition("\t")
        when = datetime.fromtimestamp((row.time_ns + self._unix_offset_ns) / 1e9, UTC)
        return CheckpointEvent(
            layer, event_type(kind), when, row.duration_ns / 1e6, row.memory_bytes, row.held_bytes
        )
