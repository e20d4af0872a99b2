"""Where the time of one step went: spans → phases, to the nanosecond.

The step is cut wherever a span begins or ends. Each piece belongs to the innermost span around it,
with the exceptions of docs/architecture.md ("Steps and phases"). The thread's CPU clock was read at
some of the cuts: between two readings the total is exact, and `CpuClock` divides it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from stepscope.analyze.iterations import evaluation_regions, in_order
from stepscope.analyze.module_use import ModuleUse
from stepscope.analyze.spans import (
    BACKWARD,
    EVALUATION,
    FORWARD,
    GC,
    INPUT_ITER,
    OPTIMIZER,
    OPTIMIZER_REST,
    OPTIMIZER_SCALE,
    OWN,
    PHASE_OF_CODE,
    PHASES,
    TRANSFER,
    SpanRow,
)
from stepscope.model.phases import Phase

__all__ = ["COUNT", "CpuClock", "StepTime", "Timeline", "attribute", "sum_up"]

COUNT = len(PHASES)
_FORWARD, _BACKWARD, _OPTIMIZER = (
    PHASES.index(p) for p in (Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER)
)
_INPUT, _EVALUATION, _GC = (PHASES.index(p) for p in (Phase.INPUT_WAIT, Phase.EVALUATION, Phase.GC))
_BETWEEN, _OWN = (PHASES.index(p) for p in (Phase.PYTHON_BETWEEN, Phase.PROFILING))
# Before a backward the loss is computed: the CPU time of such a piece is forward, the rest of it is
# what the piece would be otherwise.
_LOSS_BETWEEN, _LOSS_OPTIMIZER = COUNT, COUNT + 1
_WHOLE = frozenset((_INPUT, _EVALUATION, _GC, _OWN))  # what is inside belongs to them
_PASSED_BY = frozenset(
    (GC, TRANSFER, OPTIMIZER_REST, OPTIMIZER_SCALE, OWN)
)  # may stand before a backward


class Timeline:
    """A step in pieces: piece i lasts from times[i] to times[i + 1] and belongs to phases[i]."""

    __slots__ = ("blind_backward", "clocks", "noted", "phases", "times")

    def __init__(self, start_ns: int, cpu_ns: int) -> None:
        self.times = [start_ns]
        self.clocks = [cpu_ns]  # the thread's CPU clock at each time; negative: not read
        self.phases: list[int] = []  # places in PHASES, or one of _LOSS_*
        self.noted: list[tuple[SpanRow, int]] = []  # spans of interest, their phase
        self.blind_backward = False  # a backward came, and no forward was seen before it


class StepTime(NamedTuple):
    """Nanoseconds by phase, in the order of PHASES; they add up to the step."""

    wall_ns: list[int]
    cpu_ns: list[int]  # of the training thread
    has_cpu: bool  # whether the CPU clock was read at all


def attribute(
    rows: Iterable[SpanRow],
    start_ns: int,
    end_ns: int,
    cpu_ns: int,
    use: ModuleUse | None,
) -> Timeline:
    """The step from `start_ns` to `end_ns` in pieces.

    rows: the spans of the training thread in it, in the order in which they ended.
    cpu_ns: the thread's CPU clock at `start_ns`, -1 where it was not read.
    use: tells which forwards without gradients are evaluation; None where none can be.
    """
    ordered = in_order(rows)
    regions = evaluation_regions(ordered) if use is not None else None
    if regions:
        ordered += [(a, b, EVALUATION, 0, 0.0, -1, -1, 0, 0) for a, b in regions]
        ordered.sort(key=_outer_first)
    return _sweep(ordered, start_ns, end_ns, cpu_ns, use)


def _outer_first(row: SpanRow) -> tuple[int, int, bool]:
    return row[0], -row[1], row[2] != EVALUATION


def _sweep(  # noqa: C901 - the one hot loop of the analysis: calls would double its cost
    ordered: Sequence[SpanRow], start_ns: int, end_ns: int, cpu_ns: int, use: ModuleUse | None
) -> Timeline:
    line = Timeline(start_ns, cpu_ns)
    times, clocks, phases = line.times, line.clocks, line.phases
    here = start_ns
    outer: list[tuple[int, int, int, int]] = []  # around: (end, phase, clock there, code)
    until, phase, clock, code = end_ns, _BETWEEN, -1, 0  # the innermost of them
    loss_from = 0  # the first piece that can be the computation of a loss
    seen_forward = False
    for begin, end, row_code, arg, value, row_cpu, row_cpu_ns, flags, _ in ordered:
        if begin >= end_ns:
            break
        while until <= begin and outer:
            if until > here:
                times.append(until)
                clocks.append(clock)
                phases.append(phase)
                here = until
            if code not in _PASSED_BY:
                loss_from = len(phases)
            until, phase, clock, code = outer.pop()
        if begin < here:
            if end <= here:
                continue  # before the step, or beside what stands already
            begin, row_cpu_at = here, -1
        else:
            row_cpu_at = row_cpu
        # As end_clock() of spans.py does it.
        row_clock = -2 - row_cpu if row_cpu < 0 else row_cpu + row_cpu_ns if row_cpu_ns >= 0 else -1
        if end > until:
            end = until
            row_clock = -1
        if begin > here:
            times.append(begin)
            clocks.append(row_cpu_at)
            phases.append(phase)
            here = begin
        elif clocks[-1] < 0:
            clocks[-1] = row_cpu_at
        outer.append((until, phase, clock, code))
        if phase in _WHOLE:
            row_phase = _GC if row_code == GC and phase != _OWN else phase
        elif row_code == FORWARD:
            seen_forward = True
            if phase == _BACKWARD:
                row_phase = _BACKWARD
            else:
                evaluates = use is not None and use.is_evaluation(arg, value)
                row_phase = _EVALUATION if evaluates else _FORWARD
        else:
            row_phase = PHASE_OF_CODE[row_code]
            if row_code == BACKWARD:
                _mark_loss(phases, loss_from, inside_optimizer=code == OPTIMIZER)
                line.blind_backward = line.blind_backward or not seen_forward
        if row_code >= INPUT_ITER:
            line.noted.append(
                ((begin, end, row_code, arg, value, row_cpu, row_cpu_ns, flags, 0), row_phase)
            )
        if row_code not in _PASSED_BY:
            loss_from = len(phases)
        until, phase, clock, code = end, row_phase, row_clock, row_code
    outer.append((until, phase, clock, code))
    for until, phase, clock, _ in reversed(outer):
        if until > here:
            times.append(until)
            clocks.append(clock)
            phases.append(phase)
            here = until
    return line


def _mark_loss(phases: list[int], first: int, inside_optimizer: bool) -> None:
    for place in range(first, len(phases)):
        if phases[place] == _BETWEEN:
            phases[place] = _LOSS_BETWEEN
        elif inside_optimizer and phases[place] == _OPTIMIZER:
            phases[place] = _LOSS_OPTIMIZER


# Rates divide short pieces, so a long one counts as one of 1 ms: a first step that compiles says
# little about later ones. Beyond 100 ms in all, pieces count half as much as those that follow.
_PIECE_NS, _REMEMBERED_NS = 1_000_000, 100_000_000


class CpuClock:
    """The CPU time of a thread's pieces, from readings of its clock at some of the cuts.

    What ran between two readings is exact. It divides over the pieces between them, of several
    steps where these are short, by the rates of pieces with a reading at both of their ends. What
    these rates do not explain goes to the pieces whose rates vary. No piece gets more than it
    lasted.
    """

    def __init__(self) -> None:
        self._wall = [0.0] * (COUNT + 2)  # of pieces with both readings, by phase
        self._cpu = [0.0] * (COUNT + 2)
        self._squares = [0.0] * (COUNT + 2)  # of their rates, weighted by how long they lasted
        self._last = -1  # the last reading
        self._since = 0.0  # what pieces after it were given so far
        self._owed = 0.0  # what ran before it and has not been given to any piece yet
        self._until_ns = -1  # the end of the last step

    def copy(self) -> CpuClock:
        made = CpuClock()
        made.__dict__.update(self.__dict__)
        made._wall, made._cpu, made._squares = self._wall[:], self._cpu[:], self._squares[:]
        return made

    def divide(self, line: Timeline) -> list[float] | None:
        """The CPU time of each piece of the next step; None: nothing is known of it."""
        if line.times[0] != self._until_ns:
            self._last, self._since, self._owed = -1, 0.0, 0.0
        self._until_ns = line.times[-1]
        if all(clock < 0 for clock in line.clocks) and not any(self._wall):
            return None
        self._learn(line)
        given: list[float] = []
        for place, clock in enumerate(line.clocks):
            if clock < 0 and place < len(line.phases):
                continue
            first = len(given)
            walls = [line.times[i + 1] - line.times[i] for i in range(first, place)]
            rates = [self._rate(phase) for phase in line.phases[first:place]]
            likely = sum(wall * rate for wall, (rate, _) in zip(walls, rates, strict=True))
            is_known = clock >= 0 and self._last >= 0
            ran = clock - self._last - self._since if is_known else likely
            divided = _divided(walls, rates, self._owed + ran)
            self._owed += ran - sum(divided)
            self._since = 0.0 if clock >= 0 else self._since + likely
            self._last = max(clock, self._last)
            given += divided
        return given

    def _learn(self, line: Timeline) -> None:
        times, clocks = line.times, line.clocks
        for place, phase in enumerate(line.phases):
            if clocks[place] >= 0 and clocks[place + 1] >= 0 and times[place + 1] > times[place]:
                wall, cpu = times[place + 1] - times[place], clocks[place + 1] - clocks[place]
                weight = min(1.0, _PIECE_NS / wall)
                self._wall[phase] += wall * weight
                self._cpu[phase] += cpu * weight
                self._squares[phase] += cpu * cpu / wall * weight
        while sum(self._wall) > _REMEMBERED_NS:
            for sums in (self._wall, self._cpu, self._squares):
                sums[:] = [one / 2 for one in sums]

    def _rate(self, phase: int) -> tuple[float, float]:
        """The share of the time that a phase runs, and its variance. Of all phases together where
        this one was never read; 1 where none was."""
        wall, cpu, squares = self._wall[phase], self._cpu[phase], self._squares[phase]
        if not wall:
            wall, cpu, squares = sum(self._wall), sum(self._cpu), sum(self._squares)
        if not wall:
            return 1.0, 0.0
        rate = min(1.0, cpu / wall)
        return rate, max(0.0, squares / wall - rate * rate)


def _divided(walls: Sequence[int], rates: Sequence[tuple[float, float]], due: float) -> list[float]:
    """`due` over pieces that lasted `walls`: first as their rates have it, then the difference by
    the variances of these, then what is still left by the time on the CPU, or off it."""
    lasted = sum(walls)
    due = max(0.0, min(due, lasted))
    given = [wall * rate for wall, (rate, _) in zip(walls, rates, strict=True)]
    doubts = [wall * wall * variance for wall, (_, variance) in zip(walls, rates, strict=True)]
    doubt = sum(doubts)
    if doubt:
        step = (due - sum(given)) / doubt
        given = [
            max(0.0, min(one + step * own, wall))
            for one, own, wall in zip(given, doubts, walls, strict=True)
        ]
    total = sum(given)
    if due <= total:
        return [one * due / total if total else 0.0 for one in given]
    off = (lasted - due) / (lasted - total)
    return [wall - (wall - one) * off for wall, one in zip(walls, given, strict=True)]


def sum_up(line: Timeline, clock: CpuClock | None = None) -> StepTime:
    """The pieces of a step added up by phase. `clock`: of the steps before it."""
    divided = (clock or CpuClock()).divide(line)
    wall, cpu = [0] * COUNT, [0.0] * COUNT
    lasted = [after - before for before, after in pairwise(line.times)]
    ran_in = divided or [0.0] * len(lasted)
    for here, ran, phase in zip(lasted, ran_in, line.phases, strict=True):
        if phase < COUNT:
            wall[phase] += here
            cpu[phase] += ran
        else:
            computed = min(round(ran), here)
            wall[_FORWARD] += computed
            cpu[_FORWARD] += ran
            wall[_BETWEEN if phase == _LOSS_BETWEEN else _OPTIMIZER] += here - computed
    return StepTime(wall, [round(one) for one in cpu], divided is not None)
