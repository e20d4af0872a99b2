"""Event batches of one process → what they say about memory, in bounded memory."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator
from typing import Any, Final, NamedTuple, TypeAlias

from stepscope.analyze.frames import Frames
from stepscope.analyze.memory_growth import Line
from stepscope.analyze.memory_look import ALLOC, FREE, LABEL, BlockEvent, Look, play
from stepscope.model import names
from stepscope.model.event import Batch

__all__ = ["LimitPoint", "MemoryEvents", "StepMemory", "WindowPoint"]

MOST_STEPS: Final = 4096  # kept one by one; then neighbours become one
MOST_LOOKS: Final = 64
MOST_EVENTS: Final = 400_000  # of one look: more, and it is given up
MOST_PENDING: Final = 8  # looks that wait for the events of other threads
MOST_EARLY: Final = 4096  # events of other threads that may belong to the look that begins
MOST_REFUSED: Final = 20
Held: TypeAlias = tuple[int, int]  # bytes, blocks
_ROWS: Final = {
    names.MEMORY_ALLOC: ALLOC,
    names.MEMORY_FREE: FREE,
    names.MEMORY_LABEL: LABEL,
}
_WANTED: Final = frozenset(
    (
        *_ROWS, names.MEMORY_REFUSED, names.MEMORY_HELD, names.MEMORY_WINDOW,
        names.MEMORY_LOOK_BEGIN, names.MEMORY_LOOK_END, names.MEMORY_STEP_PEAK, names.MEMORY_TOTAL,
        names.MEMORY_SEEN, names.MEMORY_LIMIT, names.MEMORY_GARBAGE, names.MEMORY_HOLDER,
        names.MEMORY_PEAK, names.MEMORY_RSS, names.MEMORY_BEFORE, names.MEMORY_PINNED,
        names.HEAP_RESERVED, names.HEAP_FREE, names.PYTHON_LINE, names.STACK_FRAME, names.LAYER,
    )
)  # fmt: skip
_COLUMNS = (
    "name", "time_ns", "arg", "value", "text", "step", "cpu_start_ns", "cpu_ns", "flags",
)  # fmt: skip


class _Row(NamedTuple):
    name: str
    time_ns: int
    arg: int
    value: float
    text: str
    step: int
    stack: int
    layer: int
    label: int


class StepMemory(NamedTuple):
    """Neighbouring steps together: the last one's number and its end, the most of all."""

    step: int
    most_bytes: int
    end_bytes: int


class LimitPoint(NamedTuple):
    step: int
    kind: str
    limit_bytes: int
    used_bytes: int


class WindowPoint(NamedTuple):
    """The whole process at the end of a step."""

    step: int
    rss_bytes: int
    shared_bytes: int
    tensor_bytes: int
    free_bytes: int | None = None  # in libc's allocator


class Refused(NamedTuple):
    bytes: int
    step: int
    stack: int


class _OpenLook:
    """A step that is looked at, or whose last events may still come."""

    def __init__(
        self, step: int, begin_ns: int, begin_bytes: int, held: dict[tuple[int, int], Held]
    ) -> None:
        self.step, self.begin_ns, self.held = step, begin_ns, held
        self.end_ns = self.end_bytes = 0
        self.events: list[BlockEvent] = []
        self._begin_bytes = begin_bytes

    def add(self, event: BlockEvent) -> bool:
        """Whether it belongs here."""
        if event.time_ns < self.begin_ns or (self.end_ns and event.time_ns > self.end_ns):
            return False
        if len(self.events) <= MOST_EVENTS:
            self.events.append(event)
        return True

    @property
    def is_whole(self) -> bool:
        """What was dropped on its way leaves a difference: then it tells nothing."""
        known = sum(size for size, _ in self.held.values())
        change = sum(_SIGN[event.what] * event.bytes for event in self.events)
        whole = len(self.events) <= MOST_EVENTS
        return whole and known == self._begin_bytes and known + change == self.end_bytes


class MemoryEvents:
    """`update` with every batch, in order. All that is public is what was seen so far."""

    def __init__(self) -> None:
        self.frames = Frames()
        self.layers: dict[int, str] = {}
        self.steps: list[StepMemory] = []
        self.windows: list[int] = []
        self.lines: dict[int, Line] = {}
        self.looks: list[Look] = []
        self.limits: list[LimitPoint] = []
        self.points: list[WindowPoint] = []
        self.refused: list[Refused] = []
        self.peak_parts: dict[int, int] = {}  # stack → bytes, of the highest peak of all
        self.peak_total = self.peak_step = 0
        self.garbage: dict[int, dict[str, Any]] = {}
        self.holders: dict[int, dict[str, Any]] = {}
        self.totals: dict[str, int] = {}
        self.seen: dict[str, Any] = {}
        self.before: tuple[int, int] | None = None  # RSS, and of it shared
        self.pinned_bytes: int | None = None
        self.reserved: tuple[int, int] | None = None  # in arenas, in mappings
        self.free: tuple[int, int] | None = None  # in all, at the top
        self.python: list[dict[tuple[str, int], tuple[int, int]]] = []  # a look each
        self.first_ns = self.broken_looks = 0
        self._python_step = -1
        self._held: dict[tuple[int, int], tuple[int, int]] = {}
        self._pending: deque[_OpenLook] = deque()
        self._early: deque[BlockEvent] = deque(maxlen=MOST_EARLY)

    @property
    def has_any(self) -> bool:
        return bool(self.seen)

    @property
    def live_bytes(self) -> int:
        return sum(size for size, _ in self._held.values())

    def update(self, batch: Batch) -> None:
        for row in _rows(batch):
            if row.name in _ROWS:
                event = _block_event(row)
                # Threads tell at their own times: one's event may stand before or far behind the
                # look that it belongs to.
                if not any(look.add(event) for look in reversed(self._pending)):
                    self._early.append(event)
            else:
                _HANDLERS[row.name](self, row)

    # ---- one method an event ----

    def _frame(self, row: _Row) -> None:
        self.frames.add(row.arg, row.text)

    def _layer(self, row: _Row) -> None:
        path, kind, _ = row.text.split("\t")
        self.layers[row.arg] = path or kind

    def _step_peak(self, row: _Row) -> None:
        self.first_ns = self.first_ns or row.time_ns
        self.steps.append(StepMemory(row.step, int(row.value), row.arg))
        if len(self.steps) > MOST_STEPS:
            pairs = zip(self.steps[::2], self.steps[1::2], strict=False)
            joined = [
                StepMemory(b.step, max(a.most_bytes, b.most_bytes), b.end_bytes) for a, b in pairs
            ]
            self.steps = joined + self.steps[len(joined) * 2 :]

    def _hold(self, row: _Row) -> None:
        held = (int(row.value), row.arg)
        self._held[row.stack, row.label] = held
        if row.stack:
            self.lines.setdefault(row.stack, Line()).update(row.step, row.label, held)

    def _window(self, row: _Row) -> None:
        if not self.windows or self.windows[-1] < row.step:
            self.windows.append(row.step)

    def _peak_part(self, row: _Row) -> None:
        if row.arg != self.peak_total:
            self.peak_total, self.peak_step, self.peak_parts = row.arg, row.step, {}
        self.peak_parts[row.stack] = int(row.value)

    def _limit(self, row: _Row) -> None:
        self.limits.append(LimitPoint(row.step, row.text, int(row.value), row.arg))

    def _rss(self, row: _Row) -> None:
        self.points.append(WindowPoint(row.step, int(row.value), row.arg, self.live_bytes))

    def _before(self, row: _Row) -> None:
        self.before = (int(row.value), row.arg)

    def _pinned(self, row: _Row) -> None:
        self.pinned_bytes = int(row.value)

    def _reserve(self, row: _Row) -> None:
        self.reserved = (int(row.value), row.arg)

    def _set_free(self, row: _Row) -> None:
        self.free = (int(row.value), row.arg)
        if self.points:  # of the same window
            self.points[-1] = self.points[-1]._replace(free_bytes=int(row.value))

    def _refuse(self, row: _Row) -> None:
        if len(self.refused) < MOST_REFUSED:
            self.refused.append(Refused(int(row.value), row.step, row.stack))

    def _saw(self, row: _Row) -> None:
        self.seen = _json(row.text)

    def _total(self, row: _Row) -> None:
        self.totals = {key: int(value) for key, value in _json(row.text).items()}

    def _collected(self, row: _Row) -> None:
        self.garbage[row.arg] = _json(row.text)

    def _holder(self, row: _Row) -> None:
        self.holders[row.arg] = _json(row.text)

    def _python_line(self, row: _Row) -> None:
        if row.step != self._python_step:
            self._python_step = row.step
            self.python = [*self.python[:1], {}]  # the first, for comparison, and the last
        line, file = row.text.split("\t", 1)
        self.python[-1][file, int(line)] = (int(row.value), row.arg)

    # ---- looks ----

    def _begin(self, row: _Row) -> None:
        if self._pending and not self._pending[-1].end_ns:
            self._pending.pop()  # it was left before its end
        while len(self._pending) >= MOST_PENDING:
            self._finish(self._pending.popleft())
        look = _OpenLook(row.step, row.time_ns, row.arg, dict(self._held))
        self._pending.append(look)
        for event in self._early:
            look.add(event)
        self._early.clear()

    def _end(self, row: _Row) -> None:
        if self._pending:
            self._pending[-1].end_ns, self._pending[-1].end_bytes = row.time_ns, row.arg

    def finish_looks(self) -> None:
        """Play what waits: nothing more of it is to come."""
        while self._pending:
            self._finish(self._pending.popleft())

    def _finish(self, look: _OpenLook) -> None:
        if not look.end_ns:
            return
        if not look.is_whole:
            self.broken_looks += 1
            return
        events = sorted(look.events, key=lambda event: event.time_ns)
        self.looks.append(play(look.step + 1, look.held, events, look.begin_ns))
        if len(self.looks) > MOST_LOOKS:
            least = min(self.looks[:-1], key=lambda look: look.peak_bytes)
            self.looks.remove(least)


_SIGN = {ALLOC: 1, FREE: -1, LABEL: 0}
_HANDLERS = {
    names.STACK_FRAME: MemoryEvents._frame,
    names.LAYER: MemoryEvents._layer,
    names.MEMORY_STEP_PEAK: MemoryEvents._step_peak,
    names.MEMORY_HELD: MemoryEvents._hold,
    names.MEMORY_WINDOW: MemoryEvents._window,
    names.MEMORY_PEAK: MemoryEvents._peak_part,
    names.MEMORY_LIMIT: MemoryEvents._limit,
    names.MEMORY_RSS: MemoryEvents._rss,
    names.MEMORY_BEFORE: MemoryEvents._before,
    names.MEMORY_PINNED: MemoryEvents._pinned,
    names.HEAP_RESERVED: MemoryEvents._reserve,
    names.HEAP_FREE: MemoryEvents._set_free,
    names.MEMORY_REFUSED: MemoryEvents._refuse,
    names.MEMORY_SEEN: MemoryEvents._saw,
    names.MEMORY_TOTAL: MemoryEvents._total,
    names.MEMORY_GARBAGE: MemoryEvents._collected,
    names.MEMORY_HOLDER: MemoryEvents._holder,
    names.PYTHON_LINE: MemoryEvents._python_line,
    names.MEMORY_LOOK_BEGIN: MemoryEvents._begin,
    names.MEMORY_LOOK_END: MemoryEvents._end,
}


def _rows(batch: Batch) -> Iterator[_Row]:
    wanted = {number for number, name in batch.names.items() if name in _WANTED}
    if not wanted:
        return
    texts = batch.names
    columns = (batch.columns[name].tolist() for name in _COLUMNS)
    for row in zip(*columns, strict=True):
        if row[0] in wanted:
            text = texts[row[4]] if row[4] else ""
            yield _Row(texts[row[0]], row[1], row[2], row[3], text, *row[5:])


def _block_event(row: _Row) -> BlockEvent:
    return BlockEvent(
        _ROWS[row.name], row.time_ns, row.arg, int(row.value), row.stack, row.layer, row.label,
        row.text,
    )  # fmt: skip


def _json(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
