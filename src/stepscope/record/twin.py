"""The Python twin of the native core: the same calls, the same frames, slower.

It serves where no compiler was at hand, and it is what the native core is tested against.
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, Literal, TypeAlias

from stepscope.record.frames import events_frame, names_frame
from stepscope.record.twin_ledger import TwinLedger, TwinStackTable
from stepscope.record.twin_operation import TwinNothing, TwinOperation, TwinWatch, cpu_now
from stepscope.record.twin_sampler import TwinStackSampler
from stepscope.record.twin_tally import TwinTally
from stepscope.record.twin_tracker import TwinTracker
from stepscope.record.twin_vitals import TwinVitals
from stepscope.record.twin_writer import TwinWriter

__all__ = ["TwinCore"]

RING_EVENTS = 8192
BATCH_EVENTS = 2000
OPEN_SPANS = 64
TOKEN_DEPTH_BITS = 8
SPAN, SAMPLE, MARK = 1, 2, 4
OF_LOGS = ("recorded", "dropped", "calls", "probes", "clocks")
OF_WRITERS = ("lost", "writer_cpu_ns")
PACE_NS = (1_000_000_000, 10_000_000)  # see set_pace()
# CPU clocks are read as native/log.c says.
LONE_PART, BURST = 20, 24
_NO_CLOCK = -(1 << 63)  # of spans whose CPU clock is never read
COUNTERS = (*OF_LOGS, *OF_WRITERS, "last_errno")
FAILED, OPEN = 1, 2
GC_GENERATION_BITS = 8  # model/names.py


class _Owner:
    """Dies with its thread."""


class _ThreadLog(threading.local):
    """The ring and the open spans of one thread; made on its first use of the core."""

    def __init__(self, logs: list[_Log], lock: AbstractContextManager[Any]) -> None:
        self.owner = _Owner()
        self.log = _Log(threading.get_native_id(), weakref.ref(self.owner))
        with lock:
            logs.append(self.log)


# Name, arg, value, time_ns, cpu_start_ns, owner. A plain tuple: making a named one is a Python
# call, which torch._dynamo would compile where it calls us.
_OpenSpan: TypeAlias = tuple[int, int, float, int, int, object]


class _Log:
    def __init__(self, track: int, owner: weakref.ref[_Owner]) -> None:
        self.track = track
        self.owner = owner
        self.rows: deque[tuple[Any, ...]] = deque()
        self.open: list[_OpenSpan] = []
        self.recorded = self.dropped = self.calls = self.probes = self.clocks = 0
        self.cpu_read_ns = self.cpu_burst_ns = self.cpu_burst = 0
        self.cpu_gap = 0.0


class _Span:
    """A span as a context manager; it has no state of its own, so threads can share one."""

    def __init__(self, core: TwinCore, name: int, arg: int, value: float) -> None:
        self._core, self._name, self._arg, self._value = core, name, arg, value

    def __enter__(self) -> _Span:
        self._core._push_open(self._name, self._arg, self._value, _NO_CLOCK, self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> Literal[False]:
        self._core._end_owned(self, kind is not None)
        return False


class TwinCore:
    """See record/protocol.py. The clocks can be replaced by fake ones."""

    name = "python"
    StackTable = TwinStackTable
    Nothing = TwinNothing
    nothing = TwinNothing()
    cpu_now = staticmethod(cpu_now)

    def __init__(
        self,
        clock_ns: Callable[[], int] = time.monotonic_ns,
        cpu_clock_ns: Callable[[], int] = time.thread_time_ns,
    ) -> None:
        self.now_ns = clock_ns
        self._cpu_ns = cpu_clock_ns
        self._reads_some = False  # not every end of a span
        # A garbage collection may begin while it is held, and what it calls records.
        self._lock = threading.RLock()
        self._logs: list[_Log] = []
        self._local = _ThreadLog(self._logs, self._lock)
        self._names: dict[str, int] = {}
        self._names_drained = 0
        self._step = 0
        self.generation = 0
        self._gc_began_ns = 0
        self.trackers: set[TwinTracker] = set()  # that the writer takes from
        self._all_trackers: weakref.WeakSet[TwinTracker] = weakref.WeakSet()
        self._writer: TwinWriter | None = None
        self.watch = TwinWatch(self)
        self.vitals = TwinVitals(self)
        self.pace_ns = PACE_NS
        self._ended = dict.fromkeys(COUNTERS, 0)  # of threads and writers that are gone

    def __reduce__(self) -> tuple[Callable[[], Any], tuple[()]]:
        """A function that we wrapped and somebody pickled finds the core of its new process."""
        return _core_here, ()

    def Ledger(self) -> TwinLedger:  # noqa: N802 (a class, to those who call it)
        return TwinLedger(lambda: self._step, self.now_ns)

    def Tracker(self, number: int, names: Sequence[int]) -> TwinTracker:  # noqa: N802
        made = TwinTracker(self, number, names)
        self._all_trackers.add(made)
        return made

    def Operation(self, name: int, identity: int, keep: int) -> TwinOperation:  # noqa: N802
        return TwinOperation(self, name, identity, keep)

    def Tally(  # noqa: N802
        self, name: int, holds: str, releases: str, keep: int
    ) -> TwinTally:
        return TwinTally(self, name, (holds, releases), keep)

    def watch_memory(self, rss: int, peak: int) -> bool:
        return self.watch.watch_memory(rss, peak)

    def set_pace(self, flush_ns: int = PACE_NS[0], clock_ns: int = PACE_NS[1]) -> tuple[int, int]:
        if flush_ns <= 0 or clock_ns < 0:
            raise ValueError("an interval is not negative")
        before_ns, self.pace_ns = self.pace_ns, (flush_ns, clock_ns)
        if self._writer and flush_ns < before_ns[0]:
            self._writer.wake()
        return before_ns

    def watch_process(self, rss: int, cpu: int, interval_ns: int) -> None:
        self.vitals.watch(rss, cpu, interval_ns)
        if self._writer:
            self._writer.wake()  # it may be asleep for longer than that

    def call_at(self, callback: Callable[[], int] | None, at_ns: int) -> None:
        self.watch.call_at(callback, at_ns)

    def push_run(
        self,
        operation: TwinOperation,
        times_ns: tuple[int, int],
        cpu_ns: float,
        failed: bool,
        read: int,
    ) -> None:
        log = self._local.log
        flags = FAILED if failed else 0
        start_ns, end_ns = times_ns
        numbers = (operation.name, operation.identity)
        row = (start_ns, end_ns - start_ns, -1, -1, read, cpu_ns, *numbers)
        self._push(log, (*row, self._step, log.track, SPAN, flags))

    def push_counted(self, numbers: tuple[int, int], row: tuple[Any, ...], every: float) -> None:
        """An event of a tally; row: its first five columns."""
        log = self._local.log
        self._push(log, (*row, every, *numbers, self._step, log.track, MARK, 0))

    TensorHeap = None  # nothing in Python can see what libc10 calls

    def StackSampler(self, name: int) -> TwinStackSampler:  # noqa: N802
        return TwinStackSampler(self, name)

    def intern(self, text: str) -> int:
        with self._lock:
            return self._names.setdefault(text, len(self._names) + 1)

    # ---- spans ----

    def begin(self, name: int, arg: int = 0, value: float = 0.0) -> int:
        log, now_ns, cpu_ns = self._local.log, self.now_ns(), -1
        if self._is_clock_due(log, now_ns):
            cpu_ns = self._read_clock(log, now_ns)
        depth = self._push_open(name, arg, value, cpu_ns, None)
        return -1 if depth < 0 else self.generation << TOKEN_DEPTH_BITS | depth

    def _is_clock_due(self, log: _Log, now_ns: int) -> bool:
        if not self._reads_some:
            return True
        every_ns = self.pace_ns[1]
        if now_ns - log.cpu_burst_ns >= log.cpu_gap * every_ns:
            mixed = now_ns * 0x9E3779B97F4A7C15 & 0xFFFF_FFFF_FFFF_FFFF
            log.cpu_gap, log.cpu_burst_ns, log.cpu_burst = (
                0.5 + (mixed >> 48) / 0x10000,
                now_ns,
                BURST,
            )
        return log.cpu_burst > 0 or now_ns - log.cpu_read_ns >= every_ns // LONE_PART

    def _read_clock(self, log: _Log, now_ns: int) -> int:
        log.clocks += 1
        log.cpu_read_ns, log.cpu_burst = now_ns, max(0, log.cpu_burst - 1)
        return self._cpu_ns()

    def _push_open(self, name: int, arg: int, value: float, cpu_ns: int, owner: object) -> int:
        log = self._local.log
        log.calls += 1
        if len(log.open) >= OPEN_SPANS:
            log.dropped += 1
            return -1
        log.open.append((name, arg, value, self.now_ns(), cpu_ns, owner))
        return len(log.open) - 1

    def end(self, token: int, failed: int = 0, arg: int | None = None) -> None:
        end_ns = self.now_ns()
        depth = token & ((1 << TOKEN_DEPTH_BITS) - 1)
        log = self._local.log
        if token < 0 or token >> TOKEN_DEPTH_BITS != self.generation:
            return
        if arg is not None and depth < len(log.open):
            name, _, value, time_ns, cpu_start_ns, owner = log.open[depth]
            log.open[depth] = (name, arg, value, time_ns, cpu_start_ns, owner)
        while len(log.open) > depth:
            span = log.open.pop()
            self._finish(log, span, end_ns, bool(failed) or len(log.open) > depth)

    def _end_owned(self, owner: object, failed: bool) -> None:
        end_ns = self.now_ns()
        log = self._local.log
        for at in range(len(log.open) - 1, -1, -1):
            if log.open[at][5] is owner:
                # Generators can leave spans in another order than they entered: close only this.
                self._finish(log, log.open.pop(at), end_ns, failed)
                return

    def _finish(self, log: _Log, span: _OpenSpan, end_ns: int, failed: bool) -> None:
        name, arg, value, time_ns, cpu_start_ns, _ = span
        cpu_ns = -1
        if cpu_start_ns >= 0:
            cpu_ns = self._read_clock(log, end_ns) - cpu_start_ns
        elif cpu_start_ns == _NO_CLOCK:
            cpu_start_ns = -1
        elif self._is_clock_due(log, end_ns):
            cpu_start_ns = -2 - self._read_clock(log, end_ns)
        flags = FAILED if failed else 0
        row = (time_ns, end_ns - time_ns, cpu_start_ns, cpu_ns, arg, value, name, 0)
        self._push(log, (*row, self._step, log.track, SPAN, flags))

    def _push(self, log: _Log, row: tuple[Any, ...]) -> None:
        if len(log.rows) >= RING_EVENTS:
            log.dropped += 1
            return
        log.rows.append(row)
        log.recorded += 1
        if len(log.rows) % BATCH_EVENTS == 0 and self._writer:
            self._writer.wake()

    def is_open(self, name: int) -> bool:
        log = self._local.log
        log.probes += 1
        return any(span[0] == name for span in log.open)

    def span(self, name: int, arg: int = 0, value: float = 0.0) -> _Span:
        return _Span(self, name, arg, value)

    # ---- other events ----

    def _event(self, kind: int, time_ns: int, name: int, **fields: Any) -> None:
        log = self._local.log
        row = (
            time_ns,
            fields.get("duration_ns", 0),
            -1,
            -1,
            fields.get("arg", 0),
            fields.get("value", 0.0),
            name,
            fields.get("text", 0),
            self._step,
            fields.get("track", 0) or log.track,
            kind,
            fields.get("flags", 0),
        )
        self._push(log, row)

    def complete(
        self,
        name: int,
        time_ns: int,
        duration_ns: int,
        arg: int = 0,
        value: float = 0.0,
        track: int = 0,
    ) -> None:
        self._event(SPAN, time_ns, name, duration_ns=duration_ns, arg=arg, value=value, track=track)

    def sample(
        self,
        name: int,
        value: float,
        arg: int = 0,
        track: int = 0,
        text: int = 0,
        flags: int = 0,
    ) -> None:
        now_ns = self.now_ns()
        fields = {"value": value, "arg": arg, "track": track, "text": text, "flags": flags}
        self._event(SAMPLE, now_ns, name, **fields)

    def innermost_open(self, track: int) -> int:
        with self._lock:
            spans = [log.open[-1:] for log in self._logs if log.track == track]
        return spans[-1][0][0] if spans and spans[-1] else 0

    def mark(self, name: int, arg: int = 0, text: int = 0) -> None:
        self._event(MARK, self.now_ns(), name, arg=arg, text=text)

    def set_step(self, number: int) -> None:
        self._step = number
        self._reads_some = number != 0
        self.vitals.sample(self.now_ns())

    def gc_callback(self, name: int) -> Callable[[str, dict[str, int]], None]:
        def stepscope_gc_timer(phase: str, info: dict[str, int]) -> None:
            if phase == "start":
                self._gc_began_ns = self.now_ns()
            elif self._gc_began_ns:
                began_ns, self._gc_began_ns = self._gc_began_ns, 0
                lasted_ns = self.now_ns() - began_ns
                if len(self._local.log.rows) >= RING_EVENTS - BATCH_EVENTS:
                    self.flush()  # every collection counts: better to wait than to drop
                kind = info["generation"] | info["uncollectable"] << GC_GENERATION_BITS
                self.complete(name, began_ns, lasted_ns, kind, info["collected"])

        return stepscope_gc_timer

    # ---- leaving ----

    def _take(self, room: int) -> list[tuple[Any, ...]]:
        rows: list[tuple[Any, ...]] = []
        with self._lock:
            logs = list(self._logs)
        for log in logs:
            while log.rows and len(rows) < room:
                rows.append(log.rows.popleft())
        self._forget_ended()
        return rows

    def _take_tracked(self, room: int) -> list[tuple[Any, ...]]:
        """Of one tracker at a time: its totals come first."""
        for tracker in list(self.trackers):
            if rows := tracker.take_rows(room):
                return rows
        return []

    def _forget_ended(self) -> None:
        """A log outlives its thread until it is drained."""
        with self._lock:
            for log in [log for log in self._logs if log.owner() is None and not log.rows]:
                self._logs.remove(log)
                for key in OF_LOGS:
                    self._ended[key] += getattr(log, key)

    def _open_rows(self, older_than_ns: int) -> list[tuple[Any, ...]]:
        now = self.now_ns()
        with self._lock:
            opened = [(log.track, span) for log in self._logs for span in list(log.open)]
        return [
            (time_ns, now - time_ns, -1, -1, arg, value, name, 0, self._step, track, SPAN, OPEN)
            for track, (name, arg, value, time_ns, _, _) in opened
            if now - time_ns >= older_than_ns
        ]

    def _outermost_open(self) -> str:
        with self._lock:
            spans = list(self._logs[0].open) if self._logs else []
        return self._text(spans[0][0]) if spans else ""

    def _text(self, number: int) -> str:
        with self._lock:
            return list(self._names)[number - 1]

    def _names_after(self, written: int) -> list[tuple[int, str]]:
        with self._lock:
            return [(number, text) for text, number in self._names.items() if number > written]

    def drain(self) -> bytes:
        out = []
        while rows := self._take(BATCH_EVENTS) or self._take_tracked(BATCH_EVENTS):
            fresh = self._names_after(self._names_drained)
            if fresh:
                out.append(names_frame(fresh))
                self._names_drained = fresh[-1][0]
            out.append(events_frame(rows))
        return b"".join(out)

    def open(
        self,
        base: str,
        header: bytes,
        status: str = "",
        own: tuple[int, int, int, int, int, int] = (0, 0, 0, 0, 0, 0),
    ) -> None:
        self.close()
        self._writer = TwinWriter(self, base, header, status, own)
        self._writer.start()

    def flush(self) -> None:
        if self._writer:
            self._writer.flush()

    def close(self) -> None:
        writer, self._writer = self._writer, None
        if writer:
            writer.close()
            for key in OF_WRITERS:
                self._ended[key] += getattr(writer, key)
            self._ended["last_errno"] = writer.last_errno
        self._names_drained = 0

    def pause(self) -> None:
        if self._writer:
            self._writer.pause()

    def resume(self) -> None:
        if self._writer:
            self._writer.start()

    def counters(self) -> dict[str, int]:
        with self._lock:
            logs = list(self._logs)
            counters = dict(self._ended)
        for key in OF_LOGS:
            counters[key] += sum(getattr(log, key) for log in logs)
        if self._writer:
            for key in OF_WRITERS:
                counters[key] += getattr(self._writer, key)
            counters["last_errno"] = self._writer.last_errno
        return counters

    def position(self) -> tuple[int, int, int, int, int]:
        log = self._local.log
        return log.recorded, log.dropped, log.calls, log.probes, log.clocks

    def discard(self, position: tuple[int, int, int, int, int] = (0, 0, 0, 0, 0)) -> None:
        log = self._local.log
        if not any(position):
            log.open.clear()
        while log.rows and log.recorded > position[0]:
            log.rows.pop()
            log.recorded -= 1
        _, log.dropped, log.calls, log.probes, log.clocks = position

    def after_fork(self) -> None:
        """Only the forking thread lives on; what it had recorded is the parent's to write."""
        self._lock = threading.RLock()
        self._logs = []
        self._local = _ThreadLog(self._logs, self._lock)
        self.generation += 1
        self._names_drained = 0
        self._ended = dict.fromkeys(COUNTERS, 0)
        self.vitals.forget()
        self.pace_ns = PACE_NS
        self._reads_some = False
        writer, self._writer = self._writer, None
        if writer and writer.pid != os.getpid():
            writer.forget()
        for tracker in list(self._all_trackers):
            tracker.after_fork()


def _core_here() -> Any:
    from stepscope.record.core import core

    return core
