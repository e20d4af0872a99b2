"""The running figures of a loop: steps come in with their spans, sums stay."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from copy import copy
from typing import NamedTuple, TypeAlias

from stepscope.analyze.device import overlay
from stepscope.analyze.durations import Durations
from stepscope.analyze.loaders import LoaderMarks
from stepscope.analyze.loop import GcUse, LoaderUse
from stepscope.analyze.module_use import ModuleUse
from stepscope.analyze.phases import CpuClock, StepTime, Timeline, attribute, sum_up
from stepscope.analyze.spans import (
    BACKWARD,
    FAILED,
    GC,
    INPUT_ITER,
    INPUT_NEXT,
    PHASES,
    SAVE,
    TRANSFER,
    SpanRow,
)
from stepscope.analyze.windows import Windows
from stepscope.model import names
from stepscope.model.phases import Phase

__all__ = ["OnStep", "Progress", "Step", "Tally"]

_INPUT, _GC = PHASES.index(Phase.INPUT_WAIT), PHASES.index(Phase.GC)
_BETWEEN = PHASES.index(Phase.PYTHON_BETWEEN)
_UNEXPLAINED = PHASES.index(Phase.UNEXPLAINED)
_GENERATION = (1 << names.GC_GENERATION_BITS) - 1
_UNSETTLED = 1024
_RECENT = 32  # steps that tell what the loop does now
_LOADERS = 256  # kept apart; more are those of a program that makes a new one for each use
_FRESH = 1000


class Step(NamedTuple):
    """A stretch of the loop that ended. 0 steps: what comes after the last one."""

    start_ns: int
    end_ns: int
    cpu_ns: int  # the thread's CPU clock at its start; -1: not read
    rows: Sequence[SpanRow]
    number_of_steps: int = 1
    skipped: bool = False
    is_cut: bool = False  # where events were left out: how long it took is not known
    is_left_out: bool = False  # nothing of it was kept, nor of the other steps in it


class Progress(NamedTuple):
    """How far a loop is. The phase is where most of the time of the last steps went."""

    steps: int
    steps_per_second: float | None = None
    phase: str = ""
    share: float | None = None


OnStep: TypeAlias = Callable[[Step, StepTime], None]  # told of each step when it is added up


class Tally:
    """Adds up steps. Each is settled when it is known whether events were dropped in it."""

    def __init__(self, on_step: OnStep | None = None) -> None:
        self._on_step = on_step
        self.steps = 0
        self.durations = Durations()
        self.windows = Windows()
        self.has_cpu = False
        self._clock = CpuClock()
        self.skipped = self.micro_batches = self.blind_steps = 0
        self.saves = self.saved_bytes = self.transferred_bytes = 0
        self.gc = GcUse()
        self.loaders: dict[str, LoaderUse] = {}
        self.lossy: deque[tuple[int, int]] = deque(maxlen=64)  # when events were dropped
        self._unsettled: list[tuple[int, int, StepTime, int]] = []  # start, end, time, steps
        self._recent: deque[tuple[int, int, int, list[int]]] = deque(maxlen=_RECENT)
        self._fresh: set[int] = set()  # iterators of which no batch was asked for yet

    def copy(self) -> Tally:
        made = Tally()
        made.__dict__.update(self.__dict__)
        made._on_step = None  # what is added to a copy is added to the original too, later
        made.durations = self.durations.copy()
        made.windows = self.windows.copy()
        made._clock = self._clock.copy()
        made.gc = copy(self.gc)
        made.gc.collections = dict(self.gc.collections)
        made.loaders = {key: copy(use) for key, use in self.loaders.items()}
        made._unsettled = [(a, b, _copied(time), n) for a, b, time, n in self._unsettled]
        made._fresh = set(self._fresh)
        made.lossy = self.lossy.copy()
        made._recent = self._recent.copy()
        return made

    def update(
        self,
        step: Step,
        use: ModuleUse | None,
        device_rows: Iterable[SpanRow],
        marks: LoaderMarks,
    ) -> None:
        line = attribute(step.rows, step.start_ns, step.end_ns, step.cpu_ns, use)
        if device_rows:
            line = overlay(line, device_rows)
        time = sum_up(line, self._clock)
        self.has_cpu = self.has_cpu or time.has_cpu
        if step.is_left_out:
            self._leave_out(time, step)
        elif step.number_of_steps:
            self.steps += 1
            self.skipped += step.skipped
            self.blind_steps += line.blind_backward
            if not step.is_cut:
                self.durations.update(step.end_ns - step.start_ns)
        self._note(line, step, marks)
        self._recent.append((step.start_ns, step.end_ns, step.number_of_steps, time.wall_ns))
        if self._on_step is not None and not (step.is_cut or step.is_left_out):
            self._on_step(step, time)
        self._unsettled.append((step.start_ns, step.end_ns, time, step.number_of_steps))
        if len(self._unsettled) > _UNSETTLED:
            self.settle()

    def _leave_out(self, time: StepTime, step: Step) -> None:
        """Its time is unexplained; its steps are taken to be like those before."""
        time.wall_ns[_UNEXPLAINED] = step.end_ns - step.start_ns
        time.wall_ns[_BETWEEN] = 0
        if self.steps:
            self.micro_batches += round(self.micro_batches / self.steps * step.number_of_steps)
        self.steps += step.number_of_steps

    def progress(self, newer: int) -> Progress:
        """The steps so far and `newer` ones; rate and phase from the last of them."""
        steps = self.steps + newer
        if not self._recent:
            return Progress(steps)
        lasted_ns = sum(end - start for start, end, _, _ in self._recent)
        sums = [sum(values) for values in zip(*(wall for *_, wall in self._recent), strict=True)]
        most = max(sums)
        if not lasted_ns:
            return Progress(steps)
        count = sum(number for _, _, number, _ in self._recent)
        phase = str(PHASES[sums.index(most)])
        return Progress(steps, count * 1e9 / lasted_ns, phase, most / lasted_ns)

    def settle(self, until_ns: int | None = None) -> None:
        """Steps that ended by then (None: all): gaps where events were dropped are unexplained."""
        later = []
        for start, end, time, steps in self._unsettled:
            if until_ns is not None and end > until_ns:
                later.append((start, end, time, steps))
                continue
            if self.lossy and any(start < to_ns and end > from_ns for from_ns, to_ns in self.lossy):
                for values in (time.wall_ns, time.cpu_ns):
                    values[_UNEXPLAINED] += values[_BETWEEN]
                    values[_BETWEEN] = 0
            if steps:
                self.windows.update(time, steps)
            else:
                self.windows.add_rest(time)
        self._unsettled = later

    def _note(self, line: Timeline, step: Step, marks: LoaderMarks) -> None:
        batches: dict[int, int] = {}
        for row, phase in line.noted:
            code = row[2]
            if code <= INPUT_NEXT:
                if phase == _INPUT:
                    self._note_input(row, marks, batches)
            elif code == TRANSFER:
                self.transferred_bytes += row[3]
            elif code == SAVE:
                self.saves += 1
                self.saved_bytes += row[3]
            elif code == GC and phase == _GC:
                generation = row[3] & _GENERATION
                self.gc.collections[generation] = self.gc.collections.get(generation, 0) + 1
                self.gc.longest_ns = max(self.gc.longest_ns, row[1] - row[0])
        if step.number_of_steps:
            self.micro_batches += (
                max(batches.values()) if batches else sum(row[2] == BACKWARD for row in step.rows)
            )

    def _note_input(self, row: SpanRow, marks: LoaderMarks, batches: dict[int, int]) -> None:
        iterator, lasted_ns = row[3], row[1] - row[0]
        text = marks.of(row)
        use = self.loaders.get(text)
        if use is None:
            text = text if len(self.loaders) < _LOADERS else ""
            use = self.loaders.setdefault(text, LoaderUse())
        use.wait_ns += lasted_ns
        if row[2] == INPUT_ITER:
            use.iterations += 1
            use.iter_ns += lasted_ns
            if len(self._fresh) < _FRESH:
                self._fresh.add(iterator)
            return
        if iterator in self._fresh:
            self._fresh.discard(iterator)
            use.first_ns += lasted_ns
        if row[7] & FAILED:
            use.last_ns += lasted_ns
        else:
            use.batches += 1
            batches[iterator] = batches.get(iterator, 0) + 1


def _copied(time: StepTime) -> StepTime:
    return StepTime(time.wall_ns[:], time.cpu_ns[:], time.has_cpu)
