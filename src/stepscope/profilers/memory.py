"""MemoryProfiler: the program says what it allocates and frees; leaks, peaks and a timeline."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from stepscope.errors import UsageError
from stepscope.model.memory_events import (
    EventPublisher,
    EventRange,
    MemoryEvent,
    MemoryEventType,
    MemoryStatistics,
    PotentialLeak,
    StorageBackend,
)
from stepscope.profilers.closing import Closing
from stepscope.session.memory import MemorySession
from stepscope.session.memory_storage import InMemoryStorage, RunFolderStorage
from stepscope.session.ticking import Ticking

__all__ = ["CallbackPublisher", "InMemoryStorage", "MemoryProfiler", "RunFolderStorage"]

_LEAK_AGE = timedelta(seconds=10)  # younger blocks may just be in use
_MOST_FRAMES = 256
_STORAGE = ("store_events", "load_events", "dropped_events", "close")
_PUBLISHER = ("publish",)
_ALLOCATED = frozenset({MemoryEventType.ALLOCATION, MemoryEventType.REALLOCATION})


class CallbackPublisher:
    """Calls everybody in `subscribers` with each event."""

    def __init__(self, *subscribers: Callable[[MemoryEvent], object]) -> None:
        self.subscribers: list[Callable[[MemoryEvent], object]] = list(subscribers)

    def publish(self, event: MemoryEvent) -> None:
        for subscriber in list(self.subscribers):
            subscriber(event)


class MemoryProfiler(Closing):
    """Books what the program says about its memory, from any thread.

    storage: keeps the events; None: the process's own recording does. event_publisher: is told of
    each event as it happens; with one and no storage, the last 262,144 events are kept in memory.
    `MemoryProfiler(publisher)` works too, as in the source document.

    `track_allocation(address, size_bytes, allocation_type)`,
    `track_deallocation(address, size_bytes=None)`,
    `track_reallocation(old_address, new_address, size_bytes, allocation_type=None)` and
    `track_snapshot()` are the recorder's own calls, without anything in between. What cannot be
    true (freed twice, a negative size, …) is counted and listed in the statistics.
    """

    def __init__(
        self,
        storage: StorageBackend | EventPublisher | None = None,
        event_publisher: EventPublisher | None = None,
    ) -> None:
        self._session = MemorySession(*_storage_and_publisher(storage, event_publisher))
        tracker = self._tracker = self._session.tracker
        self.track_allocation = tracker.track_allocation
        self.track_deallocation = tracker.track_deallocation
        self.track_reallocation = tracker.track_reallocation
        self.track_snapshot = tracker.track_snapshot
        self._depth, self._captures = 10, False
        self._auto, self._closed = True, False
        self._timer = Ticking(self._tick, 1.0, "stepscope-memory")
        self._arm()

    def _arm(self) -> None:
        self._session.arm(weakref.WeakMethod(self._first_event))

    def _first_event(self) -> None:
        """Snapshots begin with the first event: a profiler that nobody uses has no thread."""
        if self._auto and not self._closed:
            self._timer.start(self._arm)

    def _tick(self) -> None:
        self.track_snapshot()
        self._session.tidy()

    def close(self) -> None:
        """Nothing is booked any more; what was can still be asked for. Again: nothing happens."""
        self._closed = True
        self._timer.stop()
        self._session.close()

    # ---- statistics ----

    def get_statistics(self) -> MemoryStatistics:
        """Totals since the profiler was made."""
        return self._session.statistics()

    def get_statistics_for_type(self, allocation_type: str) -> MemoryStatistics:
        """The same of one type of memory; all zero when it was never seen. Collections are those of
        the whole program."""
        return self._session.statistics(allocation_type)

    # ---- timeline ----

    def get_events(
        self, start_step: int = 0, end_step: int = EventRange().end_step
    ) -> Iterator[MemoryEvent]:
        """What happened from one optimizer step to another, both included, in the order of time."""
        return self._session.events(EventRange(start_step=start_step, end_step=end_step))

    def get_events_between(
        self, start: datetime | int, end: datetime | int
    ) -> Iterator[MemoryEvent]:
        """What happened between two moments, both included; int: ns on the clock of `time_ns`."""
        return self._session.events(EventRange(self._ns(start), self._ns(end)))

    def get_allocations_since(self, start_time: datetime | int) -> Iterator[MemoryEvent]:
        """What was allocated from then on, resized blocks included."""
        events = self._session.events(EventRange(self._ns(start_time)))
        return (event for event in events if event.memory_event_type in _ALLOCATED)

    def export_timeline(self, path: str | Path) -> Path:
        """All events as a table for other tools (CSV), in the order of time; where it is."""
        self._session.export(Path(path))
        return Path(path)

    def _ns(self, moment: datetime | int) -> int:
        """A moment without a time zone is local time."""
        if isinstance(moment, datetime):
            return round(moment.timestamp() * 1e6) * 1000 - self._session.unix_offset_ns
        return moment

    # ---- leaks ----

    def detect_potential_leaks(self, min_age: timedelta | float = _LEAK_AGE) -> list[PotentialLeak]:
        """Blocks that are still allocated after `min_age` (seconds, or a timedelta), the largest
        first. Their stack traces are empty unless `capture_stack_traces` was on."""
        age_s = min_age.total_seconds() if isinstance(min_age, timedelta) else min_age
        if not age_s >= 0:
            raise UsageError(f"min_age={min_age} is not possible: use 0 seconds or more.")
        return self._session.leaks(int(age_s * 1e9))

    # ---- configuration ----

    def enable(self) -> None:
        """Book again. A closed profiler stays closed."""
        self._tracker.enabled = not self._closed

    def disable(self) -> None:
        """Book nothing until `enable`. A block that is freed meanwhile looks like a leak later."""
        self._tracker.enabled = False

    @property
    def is_enabled(self) -> bool:
        return self._tracker.enabled

    @property
    def capture_stack_traces(self) -> bool:
        """Whether allocations remember where they were made."""
        return self._captures

    @capture_stack_traces.setter
    def capture_stack_traces(self, wanted: bool) -> None:
        self._captures = bool(wanted)
        self._tracker.stack_depth = self._depth if self._captures else 0

    @property
    def max_stack_trace_depth(self) -> int:
        """How many frames, the innermost."""
        return self._depth

    @max_stack_trace_depth.setter
    def max_stack_trace_depth(self, depth: int) -> None:
        if not _is_whole(depth) or not 1 <= depth <= _MOST_FRAMES:
            raise UsageError(
                f"max_stack_trace_depth={depth!r} is not possible: use 1 to {_MOST_FRAMES}."
            )
        self._depth = depth
        self.capture_stack_traces = self._captures

    @property
    def snapshot_interval_ms(self) -> int:
        """How often a snapshot is taken by itself."""
        return round(self._timer.interval_s * 1000)

    @snapshot_interval_ms.setter
    def snapshot_interval_ms(self, interval_ms: int) -> None:
        if not _is_whole(interval_ms) or interval_ms < 1:
            raise UsageError(
                f"snapshot_interval_ms={interval_ms!r} is not possible: use 1 or more, a whole"
                " number."
            )
        self._timer.interval_s = interval_ms / 1000
        self._restart()

    @property
    def auto_snapshot(self) -> bool:
        """Whether snapshots are taken by themselves, from the first event on."""
        return self._auto

    @auto_snapshot.setter
    def auto_snapshot(self, wanted: bool) -> None:
        self._auto = bool(wanted)
        self._restart()

    def _restart(self) -> None:
        was_running = self._timer.is_running
        self._timer.stop()
        if was_running and self._auto:
            self._timer.start(self._arm)
        else:
            self._arm()


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _storage_and_publisher(
    first: Any, publisher: Any
) -> tuple[StorageBackend | None, EventPublisher | None]:
    """Tell the document's two constructors apart: the first argument may be a publisher."""
    if hasattr(first, "publish") and not hasattr(first, "store_events"):
        if publisher is not None:
            raise UsageError("MemoryProfiler got two publishers: pass one storage, one publisher.")
        first, publisher = None, first
    _check("storage", first, _STORAGE)
    _check("event_publisher", publisher, _PUBLISHER)
    return first, publisher


def _check(name: str, given: Any, members: tuple[str, ...]) -> None:
    if given is None:
        return
    if isinstance(given, type):
        raise UsageError(
            f"MemoryProfiler cannot use {given.__name__} as {name}: it is a class, pass an"
            " instance of it."
        )
    missing = ", ".join(member for member in members if not hasattr(given, member))
    if missing:
        raise UsageError(
            f"MemoryProfiler cannot use {type(given).__name__} as {name}: it lacks {missing}."
        )
