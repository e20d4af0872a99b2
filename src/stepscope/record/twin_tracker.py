"""The twin of the native tracker."""

from __future__ import annotations

import sys
import threading
from collections import deque
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

from stepscope.record.frames import events_frame
from stepscope.record.twin_ledger import MAX_ADDRESS, MAX_BYTES, TwinLedger, TwinStackTable

__all__ = ["TwinTracker"]

ALLOCATION = 3
ALLOC, FREE, MOVED, RESIZE, SNAPSHOT, TOTALS = range(6)
OTHER_TYPES = 255
OTHERS, UNKNOWN = "(other types)", "unknown"
WRONG_KEPT = 256
MOST_EVENTS = 1 << 20
BATCH_EVENTS = 2000
MAX_DEPTH = 256
NO_KIND = NO_SIZE = -1

Row = tuple[int, int, int, int, int, int, int, int]  # what, time, address, size, kind, stack, …


class TwinTracker:
    """See record/protocol.py."""

    def __init__(self, core: Any, number: int, names: Sequence[int]) -> None:
        self.enabled = True
        self.stacks = TwinStackTable()
        self._core, self._number, self._names = core, number, tuple(names)
        self._lock = threading.RLock()  # a collection within a call may call again
        self._ledger = TwinLedger(lambda: core._step, core.now_ns)
        self._stack_depth = 0
        self._kinds: dict[str, int] = {}
        self._texts: list[int] = []
        self._rows: deque[Row] = deque()
        self._wrong: deque[tuple[str, int, int, int, int, int]] = deque(maxlen=WRONG_KEPT)
        self._size_mismatches = self._dropped = 0
        self._before = [0, 0]  # bytes allocated and freed up to what was taken
        self._attached = False
        self.call()

    @property
    def stack_depth(self) -> int:
        return self._stack_depth

    @stack_depth.setter
    def stack_depth(self, depth: int) -> None:
        if not 0 <= depth <= MAX_DEPTH:
            raise ValueError("stack_depth must be 0 to 256")
        self._stack_depth = depth

    @property
    def waiting(self) -> int:
        return len(self._rows)

    def call(
        self,
        first: Callable[[], object] | None = None,
        each: Callable[[], object] | None = None,
        full: Callable[[], object] | None = None,
    ) -> None:
        self._first, self._each, self._full = first, each, full

    # ---- what the program says ----

    def track_allocation(self, address: int, size_bytes: int, allocation_type: str) -> None:
        if not self.enabled:
            return
        with self._lock:
            kind = self._kind_of(allocation_type)
            self._begin()
            self._book(address, size_bytes, kind, ALLOC, sys._getframe(1))
        self._done()

    def track_deallocation(self, address: int, size_bytes: int | None = None) -> None:
        if not self.enabled:
            return
        with self._lock:
            self._begin()
            entry = self._ledger.get(address)
            if entry and size_bytes is not None and entry[1] != size_bytes:
                self._size_mismatches += 1
                self._note("size_mismatch", address, size_bytes, entry[2])
            self._unbook(address, FREE, NO_SIZE if size_bytes is None else size_bytes)
        self._done()

    def track_reallocation(
        self,
        old_address: int,
        new_address: int,
        size_bytes: int,
        allocation_type: str | None = None,
    ) -> None:
        if not self.enabled:
            return
        with self._lock:
            entry = self._ledger.get(old_address)
            if entry and allocation_type is None:
                kind = entry[2]
            else:
                kind = self._kind_of(UNKNOWN if allocation_type is None else allocation_type)
            self._begin()
            if 0 <= size_bytes < MAX_BYTES and 0 < new_address < MAX_ADDRESS:
                self._unbook(old_address, MOVED, NO_SIZE)
            self._book(new_address, size_bytes, kind, RESIZE, sys._getframe(1))
        self._done()

    def track_snapshot(self) -> None:
        if not self.enabled:
            return
        with self._lock:
            self._begin()
            totals = self._ledger.totals()
            self._push(SNAPSHOT, totals["live"], totals["live_bytes"], 0, 0)
        self._done()

    def _begin(self) -> None:
        first, self._first = self._first, None
        if first is not None:
            self._guarded(first)

    def _done(self) -> None:
        if self._each is not None:
            self._guarded(self._each)

    def _guarded(self, callback: Callable[[], object]) -> None:
        try:
            callback()
        except Exception as error:  # noqa: BLE001 - as an exception in a finalizer
            args: Any = SimpleNamespace(
                exc_type=type(error),
                exc_value=error,
                exc_traceback=error.__traceback__,
                err_msg=None,
                object=callback,
            )
            sys.unraisablehook(args)

    def _kind_of(self, given: str) -> int:
        if not isinstance(given, str):
            raise TypeError(f"allocation_type must be a str, not {type(given).__name__}")
        kind = self._kinds.get(given)
        if kind is not None:
            return kind
        count = len(self._kinds)
        if count > OTHER_TYPES:
            return OTHER_TYPES
        name = given if count < OTHER_TYPES else OTHERS
        self._texts.append(self._core.intern(name))
        self._kinds[name] = count
        return count

    def _book(self, address: int, size: int, kind: int, what: int, frame: Any) -> None:
        depth = self._stack_depth
        stack = self.stacks.number_of(frame, depth) if depth else 0
        before = self._ledger.get(address)
        if not self._ledger.alloc(address, size, kind, stack):
            self._note("bad_size", address, size, kind)
            return
        if before:
            self._note("double_allocation", address, size, kind)
            self._push(MOVED, address, before[1], before[2], before[4])
        self._push(what, address, size, kind, stack)

    def _unbook(self, address: int, what: int, size: int) -> None:
        entry = self._ledger.get(address)
        if self._ledger.free(address) < 0 or entry is None:
            self._note("unknown_free", address, size, NO_KIND)
            return
        self._push(what, address, entry[1], entry[2], entry[4])

    def _note(self, reason: str, address: int, size: int, kind: int) -> None:
        numbers = (_clipped(address), _clipped(size), kind)
        self._wrong.append((reason, *numbers, self._core.now_ns(), self._core._step))

    def _push(self, what: int, address: int, size: int, kind: int, stack: int) -> None:
        if len(self._rows) >= MOST_EVENTS:
            if self._attached:
                self._core.flush()
            elif self._full is not None:
                self._guarded(self._full)
            if len(self._rows) >= MOST_EVENTS:
                self._dropped += 1
                return
        place = (self._core._step, threading.get_native_id())
        self._rows.append((what, self._core.now_ns(), address, size, kind, stack, *place))

    # ---- what is known ----

    def totals(self, allocation_type: str | None = None) -> dict[str, int]:
        if allocation_type is None:
            return self._ledger.totals()
        kind = self._kinds.get(allocation_type)
        return (
            dict.fromkeys(self._ledger.totals(), 0) if kind is None else self._ledger.totals(kind)
        )

    def kinds(self) -> list[str]:
        return list(self._kinds)

    def errors(self) -> dict[str, int]:
        return self._ledger.errors() | {
            "size_mismatches": self._size_mismatches,
            "dropped_events": self._dropped,
        }

    def wrong(self) -> list[tuple[str, int, int, int, int, int]]:
        return list(self._wrong)

    def live(self, before_ns: int) -> list[tuple[int, int, int, int, int, int]]:
        return [entry for entry in self._ledger.live() if entry[3] < before_ns]

    # ---- leaving ----

    def take(self) -> bytes:
        rows = self.take_rows(BATCH_EVENTS)
        return events_frame(rows) if rows else b""

    def take_rows(self, room: int) -> list[tuple[Any, ...]]:
        with self._lock:
            taken = [self._rows.popleft() for _ in range(min(room - 1, len(self._rows)))]
            if not taken:
                return []
            _, time_ns, *_, step, track = taken[0]
            allocated, freed = self._before
            rows = [self._event(TOTALS, time_ns, allocated, freed, 0, -1, step, track)]
            for row in taken:
                rows.append(self._event(*row))
                if row[0] in (ALLOC, RESIZE):
                    self._before[0] += row[3]
                elif row[0] in (FREE, MOVED):
                    self._before[1] += row[3]
            return rows

    def _event(
        self,
        what: int,
        time_ns: int,
        address: int,
        size: int,
        kind: int,
        stack: int,
        step: int,
        track: int,
    ) -> tuple[Any, ...]:
        text = self._texts[kind] if what < SNAPSHOT else 0
        numbers = (time_ns, 0, stack, self._number, address, float(size))
        return (*numbers, self._names[what], text, step, track, ALLOCATION, 0)

    def attach(self) -> None:
        self._attached = True
        self._core.trackers.add(self)

    def detach(self) -> None:
        self._attached = False
        self._core.trackers.discard(self)

    def after_fork(self) -> None:
        """What waits is the parent's to write."""
        self._lock = threading.RLock()
        self._rows.clear()
        totals = self._ledger.totals()
        self._before = [totals["allocated_bytes"], totals["freed_bytes"]]


def _clipped(number: int) -> int:
    """As the native core has it: what no 64 bits hold is absurd in any case."""
    return -1 if number < -(1 << 63) else min(number, MAX_ADDRESS)
