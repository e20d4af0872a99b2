"""The events of a memory profiler on their way: from the tracker to a storage and a publisher."""

from __future__ import annotations

import atexit
import threading
import weakref
from collections.abc import Callable
from functools import lru_cache

from stepscope.analyze.tracked import Reading, tracked_events
from stepscope.collect.stacks import frame_text
from stepscope.model import names
from stepscope.model.event import Batch, EventType
from stepscope.model.finding import Location
from stepscope.model.memory_events import (
    ALL_EVENTS,
    EventPublisher,
    MemoryEvent,
    StackTrace,
    StorageBackend,
)
from stepscope.model.own_code import is_ours
from stepscope.record.frames import FRAME_HEAD, events_frame
from stepscope.record.protocol import StackTable
from stepscope.record.recorder import Recorder
from stepscope.session.header import Moment
from stepscope.store.frames import batch_of

__all__ = ["EventFlow"]

_STACKS_KNOWN = 1024
_STACK_NUMBER_BITS = 32  # model/names.py, TRACKED_FRAME


class EventFlow:
    """What the tracker holds goes to `storage`, and to `publisher` if there is one.

    storage None: the recorder's writer takes it from the tracker by itself.
    """

    def __init__(
        self,
        recorder: Recorder,
        number: int,
        storage: StorageBackend | None,
        publisher: EventPublisher | None,
    ) -> None:
        self._recorder, self._number = recorder, number
        self._storage, self.publisher = storage, publisher
        ids = [recorder.intern(name) for name in names.TRACKED]
        self._names = dict(zip(ids, names.TRACKED, strict=True))
        self.tracker = recorder.core.Tracker(number, ids)
        now = Moment.now()
        offset_ns = now.unix_ns - now.monotonic_ns
        self.reading = Reading(number, _resolver(self.tracker.stacks), offset_ns)
        self.lost_events = 0  # that the storage failed to take
        self._told_stacks = 0
        self._lock = threading.RLock()
        self._draining = False
        if storage is None:
            self.tracker.attach()
        else:
            _to_drain.add(self)

    def __del__(self) -> None:
        """Nobody has it any more: what waits still reaches its storage."""
        if getattr(self, "_draining", None) is False:
            self.drain()

    def forked(self) -> None:
        """In a forked child: who held the lock is not here, and the recorder's files are new."""
        self._lock = threading.RLock()
        self._draining = False
        self._told_stacks = 0

    def arm(self, first: weakref.WeakMethod[Callable[[], None]]) -> None:
        """Call this before the next event; the tracker's other calls are set along."""
        me = weakref.ref(self)

        def drain() -> None:
            if (flow := me()) is not None:
                flow.drain()

        def call_first() -> None:
            if (method := first()) is not None:
                method()

        each = drain if self.publisher is not None else None
        full = drain if self._storage is not None else None
        self.tracker.call(first=call_first, each=each, full=full)

    def drain(self) -> None:
        """Pass on what waits."""
        with self._lock:
            if self._draining:  # who is told books too: the loop below comes to that
                return
            self._draining = True
            try:
                while self._storage is not None and (data := self.tracker.take()):
                    self._pass_on(self._batch(data), self._storage)
                self._tell_stacks()
            finally:
                self._draining = False

    def flush(self) -> None:
        """All that happened up to now has reached where it goes."""
        self.drain()
        if self._storage is None:
            self._recorder.flush()

    def _batch(self, data: bytes) -> Batch:
        for kind in self.tracker.kinds():
            self._names.setdefault(self._recorder.intern(kind), kind)
        size = FRAME_HEAD.unpack_from(data)[4]
        begin = FRAME_HEAD.size
        return batch_of(memoryview(data)[begin : begin + size], self._names)

    def _pass_on(self, batch: Batch, storage: StorageBackend) -> None:
        self._store(batch, storage)
        if self.publisher is not None:
            for event in tracked_events(batch, ALL_EVENTS, self.reading):
                self.publish(event)

    def _store(self, batch: Batch, storage: StorageBackend) -> None:
        try:
            storage.store_events(batch)
        except Exception as error:  # noqa: BLE001 - somebody else's code, in the program's way
            self.lost_events += batch.count
            self._recorder.failed("storing memory events", error)

    def publish(self, event: MemoryEvent) -> None:
        """Tell whoever wants to be told."""
        if self.publisher is None:
            return
        try:
            self.publisher.publish(event)
        except Exception as error:  # noqa: BLE001 - likewise
            self._recorder.failed("publishing a memory event", error)

    def _tell_stacks(self) -> None:
        """What the numbers of stacks mean, next to the events that carry them."""
        fresh = self.tracker.stacks.nodes(self._told_stacks)
        self._told_stacks += len(fresh)
        mark, now_ns = self._recorder.intern(names.TRACKED_FRAME), self._recorder.now_ns()
        rows = []
        for at, node in enumerate(fresh):
            text = frame_text(node)
            text_id = self._recorder.intern(text)
            arg = self._number << _STACK_NUMBER_BITS | node[0]
            if self._storage is None:
                if at % _MARKS_AT_ONCE == _MARKS_AT_ONCE - 1:
                    self._recorder.flush()
                self._recorder.mark(mark, arg, text_id)
                continue
            self._names |= {mark: names.TRACKED_FRAME, text_id: text}
            rows.append((now_ns, 0, -1, -1, arg, 0.0, mark, text_id, 0, 0, int(EventType.MARK), 0))
        if rows and self._storage is not None:
            self._store(self._batch(events_frame(rows)), self._storage)


_MARKS_AT_ONCE = 4096  # between two flushes: rings are short
_to_drain: weakref.WeakSet[EventFlow] = weakref.WeakSet()


@atexit.register
def _drain_all() -> None:
    """The program ends without having closed its profilers."""
    for flow in list(_to_drain):
        flow.drain()


def _resolver(stacks: StackTable) -> Callable[[int], StackTrace]:
    @lru_cache(_STACKS_KNOWN)
    def resolve(number: int) -> StackTrace:
        return tuple(
            Location(file=file, line=line, function=function)
            for file, function, line in stacks.resolve(number)
            if not is_ours(file, function)
        )

    return resolve
