"""The engine behind a memory profiler: the tracker, its events, collections, snapshots."""

from __future__ import annotations

import heapq
import itertools
import threading
import weakref
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from stepscope.analyze.gc_use import Collection
from stepscope.analyze.tracked import tracked_events
from stepscope.errors import UsageError
from stepscope.model.memory_events import (
    ALL_EVENTS,
    EventPublisher,
    EventRange,
    MemoryEvent,
    MemoryEventType,
    MemoryStatistics,
    PotentialLeak,
    StorageBackend,
    WrongBooking,
    WrongBookings,
)
from stepscope.session.gc_watch import GcWatch
from stepscope.session.inside import inside
from stepscope.session.memory_flow import EventFlow
from stepscope.session.memory_storage import InMemoryStorage, OwnRecording

__all__ = ["MemorySession"]

_numbers = itertools.count(1)


class MemorySession:
    """One for each profiler. Nothing in here raises into the program while it books."""

    def __init__(self, storage: StorageBackend | None, publisher: EventPublisher | None) -> None:
        self._inside = inside()
        number = next(_numbers)
        if storage is None and publisher is not None:
            storage = InMemoryStorage()  # the writer would take events before they are published
        self._flow = EventFlow(self._inside.recorder, number, storage, publisher)
        self._storage = OwnRecording(self._inside) if storage is None else storage
        self.tracker = self._flow.tracker
        self.unix_offset_ns = self._flow.reading.unix_offset_ns
        self._closing, self._is_closed = threading.Lock(), False
        self._gc = GcWatch()
        self._gc.forked = weakref.WeakMethod(self._flow.forked)
        self._gc.start()
        identity = f"memory profiler {number}"
        weakref.finalize(self, self._inside.forget, identity, [self._gc]).atexit = False

    def arm(self, first: weakref.WeakMethod[Callable[[], None]]) -> None:
        """Call this before the next event."""
        self._flow.arm(first)

    def flush(self) -> None:
        """All that happened up to now has reached whom it goes to."""
        self._flow.flush()
        if self._flow.publisher is not None:
            self._inside.pull()
            for one in self._gc.news():
                for event in self._gc_events(one):
                    self._flow.publish(event)

    def tidy(self) -> None:
        """Called now and then: nothing piles up that can be let go."""
        self.flush()
        if self._inside.has_old_files:
            self._inside.tidy()

    # ---- what is known ----

    def statistics(self, allocation_type: str | None = None) -> MemoryStatistics:
        tracker, gc = self.tracker, self._gc.fold
        totals = tracker.totals(allocation_type)
        count = totals["allocated"]
        kinds = tracker.kinds() if allocation_type is None else [allocation_type]
        return MemoryStatistics(
            total_allocated_bytes=totals["allocated_bytes"],
            total_freed_bytes=totals["freed_bytes"],
            current_usage_bytes=totals["live_bytes"],
            peak_usage_bytes=totals["peak_bytes"],
            allocation_count=count,
            deallocation_count=totals["freed"],
            average_allocation_size_bytes=totals["allocated_bytes"] // count if count else 0,
            usage_by_type={kind: tracker.totals(kind)["live_bytes"] for kind in kinds},
            gc_count=gc.count,
            total_gc_time=timedelta(microseconds=gc.total_ns / 1000),
            wrong=self._wrong() if allocation_type is None else None,
            dropped_events=self._dropped(),
        )

    def _wrong(self) -> WrongBookings:
        errors, kinds = self.tracker.errors(), self.tracker.kinds()
        listed = tuple(
            WrongBooking(reason, address, size, kinds[kind] if kind >= 0 else "", time_ns, step)
            for reason, address, size, kind, time_ns, step in self.tracker.wrong()
        )
        return WrongBookings(
            errors["unknown_frees"],
            errors["size_mismatches"],
            errors["double_allocations"],
            errors["bad_sizes"],
            listed,
        )

    def _dropped(self) -> int:
        return (
            self.tracker.errors()["dropped_events"]
            + self._flow.lost_events
            + self._storage.dropped_events
        )

    def events(self, wanted: EventRange) -> Iterator[MemoryEvent]:
        """In the order of time; made one by one as they are asked for."""
        self.flush()
        collections = [
            event
            for one in list(self._gc.fold.recent)
            for event in self._gc_events(one)
            if wanted.contains(event.time_ns, event.step)
        ]
        return _with_totals(
            heapq.merge(
                self._tracked(wanted),
                sorted(collections, key=lambda event: event.time_ns),
                key=lambda event: event.time_ns,
            )
        )

    def _tracked(self, wanted: EventRange) -> Iterator[MemoryEvent]:
        for batch in self._storage.load_events(wanted):
            yield from tracked_events(batch, wanted, self._flow.reading)

    def _gc_events(self, one: Collection) -> Iterator[MemoryEvent]:
        ends = (
            (MemoryEventType.GC_START, one.start_ns),
            (MemoryEventType.GC_END, one.start_ns + one.duration_ns),
        )
        for kind, time_ns in ends:
            yield MemoryEvent(
                memory_event_type=kind,
                time_ns=time_ns,
                step=one.step,
                thread_id=one.track,
                unix_ns=time_ns + self.unix_offset_ns,
                generation=one.generation,
            )

    def export(self, path: Path) -> None:
        """All events as a table (CSV), read and written one by one."""
        from stepscope.interop.tables import events_to_csv

        try:
            with path.open("w", newline="", encoding="utf-8") as file:
                events_to_csv(self.events(EventRange()), file)
        except OSError as error:
            raise UsageError(
                f"{path} cannot be written ({error.strerror}): name another place."
            ) from error

    def leaks(self, min_age_ns: int) -> list[PotentialLeak]:
        """The largest first, of equal ones the oldest."""
        before_ns = self._inside.recorder.now_ns() - min_age_ns if min_age_ns else ALL_EVENTS.end_ns
        found = self.tracker.live(before_ns)
        found.sort(key=lambda entry: (-entry[1], entry[3]))
        resolve = self._flow.reading.resolve
        return [
            PotentialLeak(address, size, resolve(stack)) for address, size, _, _, stack, _ in found
        ]

    def close(self) -> None:
        """What was booked can still be asked for."""
        with self._closing:
            if self._is_closed:
                return
            self._is_closed = True
        self.tidy()
        self._gc.stop()
        self.tracker.enabled = False
        self.tracker.detach()
        self._storage.close()


def _with_totals(events: Iterator[MemoryEvent]) -> Iterator[MemoryEvent]:
    """Collections change no totals: they have those of the event before them."""
    last: MemoryEvent | None = None
    for event in events:
        if event.generation is None:
            last = event
            yield event
        else:
            yield (
                event
                if last is None
                else replace(
                    event,
                    total_allocated_bytes=last.total_allocated_bytes,
                    total_free_bytes=last.total_free_bytes,
                )
            )
