"""Event batches of one process → its loop, as they come, in bounded memory."""

from __future__ import annotations

from collections import deque
from operator import itemgetter

from stepscope.analyze.loaders import LoaderMarks, parsed
from stepscope.analyze.loop import Loop, OpenSpan
from stepscope.analyze.module_use import ModuleUse
from stepscope.analyze.phases import attribute
from stepscope.analyze.spans import (
    DEVICE,
    FAILED,
    FORWARD,
    NAME_OF_CODE,
    OPEN,
    OPTIMIZER,
    PHASES,
    SAVE,
    SpanRow,
    loop_spans,
)
from stepscope.analyze.steps import Boundary, FoundBy, Steps, loop_start, steps_by
from stepscope.analyze.tally import OnStep, Progress, Step, Tally
from stepscope.analyze.threads import Threads
from stepscope.model import names
from stepscope.model.event import Batch
from stepscope.model.phases import Phase

__all__ = ["LoopFold", "Progress"]

PENDING = 20_000  # spans that may wait for the end of a step
HELD = 4  # steps that wait for what the device has to say about them
HELD_FOR_DEVICE = 512
NO_DEVICE = 64  # so many steps without a word of a device: there is none to wait for
_OPEN_SPANS = 1000  # that are remembered; the end of one may have been dropped
_DEVICE_SPANS = 100_000
_TRAINERS = 64  # threads of a process that train beside the first one
_EVALUATION = PHASES.index(Phase.EVALUATION)
_flags, _track = itemgetter(7), itemgetter(8)


_OTHER = (names.LOADER, names.OWN_DROPPED, names.PROCESS_EXIT, names.OWN_LEFT_OUT)


class LoopFold:
    """`update` with every batch of a process, in order; `get` at any time.

    began_ns: when the process began, on the clock of the events; None: with its first event.
    on_step: is told of each step, once, when it is added up.
    """

    def __init__(
        self,
        rank: int = 0,
        pid: int = 0,
        began_ns: int | None = None,
        on_step: OnStep | None = None,
    ) -> None:
        self._rank, self._pid, self._began_ns = rank, pid, began_ns
        self._on_step = on_step
        self._last_ns = began_ns or 0
        self.events = 0  # of any kind, so far
        self._opened: dict[tuple[int, int, int], int] = {}  # (track, start, code) → lasted so far
        self._marks = LoaderMarks()
        self._device: deque[SpanRow] = deque(maxlen=_DEVICE_SPANS)
        self._device_ns = 0
        self._dropped, self._dropped_at_ns = 0, 0
        self._use = ModuleUse()
        self._threads = Threads()  # while the training thread is not known
        self._beside: dict[int, LoopFold] = {}  # by thread: others that train, too
        self._restart(FoundBy.NOTHING, 0, [])

    def _restart(self, found_by: FoundBy, track: int, rows: list[SpanRow]) -> None:
        """Begin to look for steps by this sign, in these spans and those to come."""
        self._found_by, self._track = found_by, track
        self._finder: Steps = steps_by(found_by)
        self._tally = Tally(self._on_step)
        self._held: deque[Step] = deque()
        self._start_ns = -1  # of the loop; -1: not known yet
        self._step_ns, self._step_cpu_ns = -1, -1  # the start of the step that is under way
        self._is_cut = False  # events were left out at its start
        self._pending: list[SpanRow] = []
        if found_by:
            self._extend(rows)
            self._threads.clear()

    def progress(self) -> Progress:
        """How far the loop is, at next to no cost."""
        if not self._found_by:
            return Progress(self._threads.signs())
        # The newest step is not known to be over, but all signs say so.
        return self._tally.progress(len(self._held) + 1)

    # ---- taking in ----

    def update(self, batch: Batch) -> None:
        if not batch.count:
            return
        self.events += batch.count
        rows = loop_spans(batch)
        self._take_other(batch)
        if rows:
            self._last_ns = max(self._last_ns, rows[-1][1])
            self._take(rows)

    def _take(self, rows: list[SpanRow]) -> None:
        if self._opened or max(map(_flags, rows)) >= OPEN:
            rows = self._without_open(rows)
        if set(map(_track, rows)) != {self._track}:
            self._take_device([row for row in rows if row[2] >= DEVICE])
            rows = [row for row in rows if row[2] < DEVICE]
            if self._found_by is FoundBy.OPTIMIZER:
                self._take_beside(rows)
                rows = [row for row in rows if row[8] == self._track]
        if self._found_by is FoundBy.OPTIMIZER:
            self._extend(rows)
        else:
            self._search(rows)

    def _without_open(self, rows: list[SpanRow]) -> list[SpanRow]:
        closed = []
        for row in rows:
            key = (row[8], row[0], row[2])
            if row[7] & OPEN:
                self._opened[key] = row[1] - row[0]
                if len(self._opened) > _OPEN_SPANS:
                    del self._opened[next(iter(self._opened))]
            else:
                self._opened.pop(key, None)
                closed.append(row)
        return closed

    def _take_device(self, rows: list[SpanRow]) -> None:
        self._device.extend(rows)
        self._device_ns = max([self._device_ns, *(row[1] for row in rows)])

    def _take_other(self, batch: Batch) -> None:
        """Marks of loaders and of what was left out, and samples of what was dropped."""
        columns = batch.columns
        for name, place in batch.places(_OTHER):
            time_ns = columns["time_ns"][place]
            self._last_ns = max(self._last_ns, time_ns)
            if name == names.LOADER:
                text = batch.names.get(columns["text"][place], "")
                self._marks.update(columns["arg"][place], time_ns, text)
            elif name == names.OWN_DROPPED:
                self._count_dropped(int(columns["value"][place]), time_ns)
            elif name == names.OWN_LEFT_OUT:
                end_ns = time_ns + columns["duration_ns"][place]
                self._leave_out(time_ns, end_ns, columns["arg"][place])

    def _count_dropped(self, dropped: int, time_ns: int) -> None:
        if dropped > self._dropped:
            self._tally.lossy.append((self._dropped_at_ns, time_ns))
        self._dropped, self._dropped_at_ns = max(dropped, self._dropped), time_ns
        self._tally.settle(time_ns)

    # ---- finding the thread and the sign ----

    def _search(self, rows: list[SpanRow]) -> None:
        """No optimizer step yet: keep the spans of all threads, up to a limit."""
        for place, row in enumerate(rows):
            if row[2] == OPTIMIZER and not row[7] & FAILED:
                self._threads.update(rows[:place])
                self._train(row[8], [r for r in rows[place:] if r[8] == row[8]])
                self._take_beside(rows)
                return
        if self._found_by:
            self._extend([row for row in rows if row[8] == self._track])
            return
        self._threads.update(rows)
        if len(self._threads) > PENDING:
            found_by, track = self._threads.best()
            if found_by:
                self._restart(found_by, track, self._threads.rows(track))
            else:
                self._threads.clear()

    def _train(self, track: int, rows: list[SpanRow]) -> None:
        """The first optimizer step: what led to it is the loop, what was before is start-up."""
        before = self._threads.rows(track)
        if self._found_by and track == self._track:
            held = [row for step in self._held for row in step.rows]
            before = [*held, *self._pending, *before]
        self._restart(FoundBy.OPTIMIZER, track, [*before, *rows])

    def _take_beside(self, rows: list[SpanRow]) -> None:
        """Other threads of the process that take optimizer steps have loops of their own."""
        for track in {row[8] for row in rows} - {self._track}:
            theirs = [row for row in rows if row[8] == track]
            fold = self._beside.get(track)
            if fold is not None:
                fold._extend(theirs)
            elif len(self._beside) < _TRAINERS and any(
                row[2] == OPTIMIZER and not row[7] & FAILED for row in theirs
            ):
                fold = self._beside[track] = LoopFold(self._rank, self._pid, self._began_ns)
                fold._marks = self._marks
                fold._restart(FoundBy.OPTIMIZER, track, theirs)

    # ---- closing steps ----

    def _extend(self, rows: list[SpanRow]) -> None:
        trigger = self._finder.trigger
        pending = self._pending
        for row in rows:
            pending.append(row)
            if row[2] == trigger:
                for boundary in self._finder.feed(pending, self._step_ns):
                    self._close(boundary)
                pending = self._pending
        if len(pending) > PENDING:
            self._spill()

    def _close(self, boundary: Boundary) -> None:
        rows = self._pending[: boundary.spans]
        self._pending = self._pending[boundary.spans :]
        self._finder.shift(boundary.spans)
        if self._start_ns < 0:
            self._start_ns = self._step_ns = loop_start(rows, self._found_by)
        self._hold(
            Step(
                self._step_ns,
                boundary.end_ns,
                self._step_cpu_ns,
                rows,
                1,
                boundary.skipped,
                self._is_cut,
            )
        )
        self._step_ns, self._step_cpu_ns = boundary.end_ns, boundary.cpu_ns
        self._is_cut = False

    def _hold(self, step: Step) -> None:
        self._held.append(step)
        keep = 0 if self._has_no_device else HELD
        if len(self._held) > keep:
            self._release(keep)

    @property
    def _has_no_device(self) -> bool:
        trains = self._found_by is FoundBy.OPTIMIZER
        return trains and not self._device_ns and self._tally.steps >= NO_DEVICE

    def _release(self, keep: int) -> None:
        """Add up the steps that waited long enough for the device."""
        held = self._held
        while len(held) > keep:
            behind = 0 < self._device_ns < held[0].end_ns
            if behind and len(held) <= HELD_FOR_DEVICE:
                return
            step = held.popleft()
            self._add(self._tally, step)
            while self._device and self._device[0][1] <= step.end_ns:
                self._device.popleft()

    def _add(self, tally: Tally, step: Step) -> None:
        use = None
        if self._found_by >= FoundBy.BACKWARD:
            for row in [row for row in step.rows if row[2] == FORWARD]:
                self._use.take(row)
                if row[4] <= 0:  # only then can there be evaluation in it
                    use = self._use
            if step.number_of_steps:
                self._use.step_ended()
        tally.update(step, use, self._device, self._marks)

    def _leave_out(self, start_ns: int, end_ns: int, steps: int) -> None:
        """Events of the loop were left out on purpose: a stretch of its own, and what lies on
        either side of it belongs to no step that is known from end to end."""
        if not self._found_by:
            return
        boundary = self._finder.last(self._pending, self._step_ns)
        if boundary is not None:
            self._close(boundary)
        if self._start_ns < 0 or end_ns <= self._step_ns:
            return
        start_ns = max(start_ns, self._step_ns)
        if start_ns > self._step_ns:
            self._hold(Step(self._step_ns, start_ns, self._step_cpu_ns, self._pending, 0))
        self._hold(Step(start_ns, end_ns, -1, (), steps, is_left_out=True))
        self._finder, self._pending = steps_by(self._found_by), []
        self._step_ns, self._step_cpu_ns, self._is_cut = end_ns, -1, True

    def _spill(self) -> None:
        """No step ended for very long (an evaluation of many batches): add up what is there."""
        boundary = self._finder.last(self._pending, self._step_ns)
        if boundary is not None:
            self._close(boundary)
            self._finder = steps_by(self._found_by)
        if self._start_ns < 0 or len(self._pending) <= PENDING // 2:
            del self._pending[: -PENDING // 2]
            return
        end_ns = self._end_of_rest(self._pending, self._step_ns)
        if end_ns == self._step_ns:
            end_ns = self._pending[-1][1]
        self._hold(Step(self._step_ns, end_ns, self._step_cpu_ns, self._pending, 0))
        self._pending = [row for row in self._pending if row[1] > end_ns]
        self._step_ns, self._step_cpu_ns = end_ns, -1

    # ---- the result ----

    def all(self) -> list[Loop]:
        """The loops of all threads that train, so far; that of `get` first."""
        found = [self.get(), *(fold.get() for fold in self._beside.values())]
        return [loop for loop in found if loop is not None]

    def get(self) -> Loop | None:
        """The loop so far; None: no step was found."""
        if not self._found_by:
            found_by, track = self._threads.best()
            if not found_by:
                return None
            return self._branch(found_by, track).get()
        tally = self._tally.copy()
        use = self._use.copy()
        start_ns, end_ns = self._finish(tally)
        self._use = use
        if start_ns < 0:
            return None
        tally.settle()
        return self._loop(tally, start_ns, end_ns)

    def _branch(self, found_by: FoundBy, track: int) -> LoopFold:
        """Another fold that takes this sign for what it is, though a stronger one may come."""
        made = LoopFold(self._rank, self._pid, self._began_ns)
        made.__dict__.update(self.__dict__)
        made._on_step = None
        made._threads, made._use, made._device = Threads(), ModuleUse(), deque(self._device)
        made._restart(found_by, track, self._threads.rows(track))
        return made

    def _finish(self, tally: Tally) -> tuple[int, int]:
        """Add the steps that wait and what is left; gives the start and the end of the loop."""
        for step in self._held:
            self._add(tally, step)
        start_ns, step_ns = self._start_ns, self._step_ns
        rows, cpu_ns = self._pending, self._step_cpu_ns
        boundary = self._finder.last(rows, step_ns)
        if boundary is not None:
            last_rows, rows = rows[: boundary.spans], rows[boundary.spans :]
            if start_ns < 0:
                start_ns = step_ns = loop_start(last_rows, self._found_by)
            last = Step(
                step_ns, boundary.end_ns, cpu_ns, last_rows, 1, boundary.skipped, self._is_cut
            )
            self._add(tally, last)
            step_ns, cpu_ns = boundary.end_ns, boundary.cpu_ns
        end_ns = self._end_of_rest(rows, step_ns)
        if start_ns >= 0 and end_ns > step_ns:
            self._add(tally, Step(step_ns, end_ns, cpu_ns, rows, 0))
            return start_ns, end_ns
        return start_ns, step_ns

    def _end_of_rest(self, rows: list[SpanRow], step_ns: int) -> int:
        """The end of the last evaluation or save after the last step, else `step_ns`."""
        ends = [row[1] for row in rows if row[2] == SAVE]
        last_ns = max((row[1] for row in rows), default=step_ns)
        if last_ns > step_ns and self._found_by >= FoundBy.BACKWARD:
            line = attribute(rows, step_ns, last_ns, -1, self._use)
            ends += [
                line.times[place + 1]
                for place, phase in enumerate(line.phases)
                if phase == _EVALUATION
            ]
        return max(ends, default=step_ns)

    def _loop(self, tally: Tally, start_ns: int, end_ns: int) -> Loop:
        for text, use in tally.loaders.items():
            use.settings = parsed(text)
        return Loop(
            rank=self._rank,
            pid=self._pid,
            found_by=self._found_by,
            start_ns=start_ns,
            end_ns=end_ns,
            steps=tally.steps,
            durations_ns=tally.durations.sample(),
            windows=tally.windows,
            has_cpu=tally.has_cpu,
            skipped=tally.skipped,
            micro_batches=tally.micro_batches,
            startup_ns=max(0, start_ns - self._began_ns) if self._began_ns is not None else 0,
            tail_ns=max(0, self._last_ns - end_ns),
            loaders=tuple(sorted(tally.loaders.values(), key=lambda use: -use.wait_ns)),
            gc=tally.gc,
            saves=tally.saves,
            saved_bytes=tally.saved_bytes,
            transferred_bytes=tally.transferred_bytes,
            blind_steps=tally.blind_steps,
            dropped_events=self._dropped,
            open_span=self._open_span(),
            track=self._track,
        )

    def _open_span(self) -> OpenSpan | None:
        """The outermost span of the training thread that nothing closed."""
        mine = [
            (start, lasted, code)
            for (track, start, code), lasted in self._opened.items()
            if track == self._track and code in NAME_OF_CODE
        ]
        if not mine:
            return None
        start, lasted, code = min(mine)
        return OpenSpan(NAME_OF_CODE[code], start, lasted)
