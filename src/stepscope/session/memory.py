"""The engine behind a memory profiler: the tracker, its events, collections, snapshots."""

from __future__ import annotations

import atexit
import heapq
import itertools
import threading
import weakref
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from functools import lru_cache

from stepscope.analyze.gc_use import Collection
from stepscope.analyze.tracked import Reading, tracked_events
from stepscope.model import names
from stepscope.model.event import Batch, EventType
from stepscope.model.finding import Location
from stepscope.model.memory_events import (
    ALL_EVENTS,
    EventPublisher,
    EventRange,
    MemoryEvent,
    MemoryEventType,
    MemoryStatistics,
    PotentialLeak,
    StackTrace,
    StorageBackend,
    WrongBooking,
    WrongBookings,
)
from stepscope.record.frames import FRAME_HEAD, events_frame
from stepscope.session.gc_watch import GcWatch
from stepscope.session.header import Moment
from stepscope.session.inside import inside
from stepscope.session.memory_storage import InMemoryStorage, OwnRecording
from stepscope.store.frames import batch_of

__all__ = ["MemorySession"]

_numbers = itertools.count(1)
_STACKS_KNOWN = 1024
_STACK_NUMBER_BITS = 32  # model/names.py, TRACKED_FRAME
_to_drain: weakref.WeakSet[MemorySession] = weakref.WeakSet()


@atexit.register
def _drain_all() -> None:
    """The program ends without having closed its profilers."""
    for session in list(_to_drain):
        session.drain()


class MemorySession:
    """One for each profiler. Nothing in here raises into the program while it books."""

    def __init__(self, storage: StorageBackend | None, publisher: EventPublisher | None) -> None:
        self._inside = inside()
        self._recorder = self._inside.recorder
        self._number = next(_numbers)
        ids = [self._recorder.intern(name) for name in names.TRACKED]
        self._names = dict(zip(ids, names.TRACKED, strict=True))
        self.tracker = self._recorder.core.Tracker(self._number, ids)
        self._publisher = publisher
        self._lock = threading.RLock()
        self._draining = self._is_closed = False
        self._told_stacks = self._lost = 0
        now = Moment.now()
        self._reading = Reading(
            self._number,
            lru_cache(_STACKS_KNOWN)(self._resolve),
            now.unix_ns - now.monotonic_ns,
        )
        self.unix_offset_ns = self._reading.unix_offset_ns
        self._drains = storage is not None or publisher is not None
        self._storage = storage or (InMemoryStorage() if publisher else OwnRecording(self._inside))
        self._gc = GcWatch()
        self._gc.forked = weakref.WeakMethod(self._forked)
        self._gc.start()
        weakref.finalize(
            self, self._inside.forget, f"{self._number}/memory/", [self._gc]
        ).atexit = False
        if self._drains:
            _to_drain.add(self)
        else:
            self.tracker.attach()

    def __del__(self) -> None:
        """Nobody has it any more: what waits still reaches its storage."""
        if getattr(self, "_drains", False):
            self.drain()

    def _forked(self) -> None:
        """In a forked child: who held the lock is not here, and our files are new."""
        self._lock = threading.RLock()
        self._draining = False
        self._told_stacks = 0

    def arm(self, first: weakref.WeakMethod[Callable[[], None]]) -> None:
        """Call this before the next event; the tracker's other calls are set along."""
        me = weakref.ref(self)

        def drain() -> None:
            if (session := me()) is not None:
                session.drain()

        def call_first() -> None:
            if (method := first()) is not None:
                method()

        each = drain if self._publisher is not None else None
        self.tracker.call(first=call_first, each=each, full=drain if self._drains else None)

    # ---- events on their way ----

    def drain(self) -> None:
        """Pass on what waits: to the storage, and to who wants to be told."""
        with self._lock:
            if self._draining:  # who is told books too: the loop below comes to that
                return
            self._draining = True
            try:
                while self._drains and (data := self.tracker.take()):
                    self._pass_on(self._batch(data))
                self._tell_stacks()
            finally:
                self._draining = False

    def _batch(self, data: bytes) -> Batch:
        for kind in self.tracker.kinds():
            self._names.setdefault(self._recorder.intern(kind), kind)
        size = FRAME_HEAD.unpack_from(data)[4]
        begin = FRAME_HEAD.size
        return batch_of(memoryview(data)[begin : begin + size], self._names)

    def _pass_on(self, batch: Batch) -> None:
        self._store(batch)
        if self._publisher is not None:
            for event in tracked_events(batch, ALL_EVENTS, self._reading):
                self._publish(event)

    def _store(self, batch: Batch) -> None:
        try:
            self._storage.store_events(batch)
        except Exception as error:  # noqa: BLE001 - somebody else's code, in the program's way
            self._lost += batch.count
            self._recorder.failed("storing memory events", error)

    def _publish(self, event: MemoryEvent) -> None:
        if self._publisher is None:
            return
        try:
            self._publisher.publish(event)
        except Exception as error:  # noqa: BLE001 - likewise
            self._recorder.failed("publishing a memory event", error)

    def _tell_stacks(self) -> None:
        """What the numbers of stacks mean, next to the events that carry them."""
        fresh = self.tracker.stacks.nodes(self._told_stacks)
        if not fresh:
            return
        self._told_stacks += len(fresh)
        mark, now_ns = self._recorder.intern(names.TRACKED_FRAME), self._recorder.now_ns()
        rows = []
        for number, caller, file, function, line in fresh:
            text = f"{caller}\t{line}\t{function}\t{file}"
            text_id = self._recorder.intern(text)
            arg = self._number << _STACK_NUMBER_BITS | number
            if not self._drains:
                self._recorder.mark(mark, arg, text_id)
                continue
            self._names |= {mark: names.TRACKED_FRAME, text_id: text}
            rows.append((now_ns, 0, -1, -1, arg, 0.0, mark, text_id, 0, 0, int(EventType.MARK), 0))
        if rows:
            self._store(self._batch(events_frame(rows)))

    def flush(self) -> None:
        """All that happened up to now has reached whom it goes to."""
        self.drain()
        if not self._drains:
            self._recorder.flush()
        if self._publisher is not None:
            self._gc.fold  # noqa: B018 - takes in what is new
            for one in self._gc.news():
                for event in self._gc_events(one):
                    self._publish(event)

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
        return self.tracker.errors()["dropped_events"] + self._lost + self._storage.dropped_events

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
            yield from tracked_events(batch, wanted, self._reading)

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

    def _resolve(self, number: int) -> StackTrace:
        return tuple(
            Location(file=file, line=line, function=function)
            for file, function, line in self.tracker.stacks.resolve(number)
        )

    def leaks(self, min_age_ns: int) -> list[PotentialLeak]:
        """The largest first, of equal ones the oldest."""
        before_ns = self._recorder.now_ns() - min_age_ns if min_age_ns else ALL_EVENTS.end_ns
        found = self.tracker.live(before_ns)
        found.sort(key=lambda entry: (-entry[1], entry[3]))
        resolve = self._reading.resolve
        return [
            PotentialLeak(address, size, resolve(stack)) for address, size, _, _, stack, _ in found
        ]

    def close(self) -> None:
        """What was booked can still be asked for."""
        with self._lock:
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
