"""Where the time of one step went: spans → phases, to the nanosecond.

The step is cut wherever a span begins or ends. Each piece belongs to the innermost span around it,
with the exceptions of docs/architecture.md ("Steps and phases"). The thread's CPU clock was read at
most cuts; between two readings it is taken to run evenly.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from stepscope.analyze.iterations import evaluation_regions, in_order
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

__all__ = ["COUNT", "CpuRates", "StepTime", "Timeline", "attribute", "sum_up"]

COUNT = len(PHASES)
SHORT_NS = 20_000_000  # of shorter steps, clocks may not have been read
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
        self.clocks = [cpu_ns]  # the thread's CPU clock at each time; -1: not read
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
    trained: Collection[int] | None,
) -> Timeline:
    """The step from `start_ns` to `end_ns` in pieces.

    rows: the spans of the training thread in it, in the order in which they ended.
    cpu_ns: the thread's CPU clock at `start_ns`, -1 where it was not read.
    trained: modules that are trained, so that calling them without gradients is evaluation;
    None where no evaluation is to be told from the rest.
    """
    ordered = in_order(rows)
    regions = evaluation_regions(ordered) if trained is not None else None
    if regions:
        ordered += [(a, b, EVALUATION, 0, 0.0, -1, -1, 0, 0) for a, b in regions]
        ordered.sort(key=_outer_first)
    return _sweep(ordered, start_ns, end_ns, cpu_ns, trained or ())


def _outer_first(row: SpanRow) -> tuple[int, int, bool]:
    return row[0], -row[1], row[2] != EVALUATION


def _sweep(  # noqa: C901 - the one hot loop of the analysis: calls would double its cost
    ordered: Sequence[SpanRow], start_ns: int, end_ns: int, cpu_ns: int, trained: Collection[int]
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
        if end > until:
            end = until
            row_cpu_ns = -1
        if begin > here:
            times.append(begin)
            clocks.append(row_cpu_at)
            phases.append(phase)
            here = begin
        elif clocks[-1] < 0:
            clocks[-1] = row_cpu_at
        outer.append((until, phase, clock, code))
        row_clock = row_cpu + row_cpu_ns if row_cpu >= 0 and row_cpu_ns >= 0 else -1
        if phase in _WHOLE:
            row_phase = _GC if row_code == GC and phase != _OWN else phase
        elif row_code == FORWARD:
            seen_forward = True
            if phase == _BACKWARD:
                row_phase = _BACKWARD
            else:
                row_phase = _EVALUATION if not value and arg in trained else _FORWARD
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


class CpuRates:
    """How much of its time the thread was on a CPU, by kind of piece, in steps whose clocks were
    read: of short steps not all are (record/protocol.py, set_step)."""

    def __init__(self) -> None:
        self._wall = [0] * (COUNT + 2)
        self._cpu = [0] * (COUNT + 2)

    def copy(self) -> CpuRates:
        made = CpuRates()
        made._wall, made._cpu = self._wall[:], self._cpu[:]
        return made

    def learn(self, line: Timeline) -> None:
        times, clocks = line.times, line.clocks
        for place, phase in enumerate(line.phases):
            self._wall[phase] += times[place + 1] - times[place]
            self._cpu[phase] += clocks[place + 1] - clocks[place]

    def fill(self, line: Timeline) -> bool:
        """Clocks of a step that was not read; False: nothing is known yet."""
        if not any(self._wall):
            return False
        clock, clocks = 0.0, [0]
        for place, phase in enumerate(line.phases):
            lasted = line.times[place + 1] - line.times[place]
            clock += lasted * self._cpu[phase] / self._wall[phase] if self._wall[phase] else 0.0
            clocks.append(round(clock))
        line.clocks[:] = clocks
        return True


def sum_up(line: Timeline, rates: CpuRates | None = None) -> StepTime:
    """The pieces of a step added up by phase. `rates`: of the steps before it."""
    has_cpu = _know_clocks(line, rates)
    times, clocks = line.times, line.clocks
    wall, cpu = [0] * COUNT, [0] * COUNT
    before, clock = times[0], clocks[0]
    for now, then, phase in zip(times[1:], clocks[1:], line.phases, strict=True):
        if phase < COUNT:
            wall[phase] += now - before
            cpu[phase] += then - clock
        else:
            computed = max(0, min(then - clock, now - before))
            wall[_FORWARD] += computed
            cpu[_FORWARD] += then - clock
            wall[_BETWEEN if phase == _LOSS_BETWEEN else _OPTIMIZER] += now - before - computed
        before, clock = now, then
    return StepTime(wall, cpu, has_cpu)


def _know_clocks(line: Timeline, rates: CpuRates | None) -> bool:
    """Put values for the readings that are missing. False: nothing is known of them."""
    times, clocks = line.times, line.clocks
    has_all = -1 not in clocks
    if rates is None or times[-1] - times[0] >= SHORT_NS:
        return has_all or _fill_clocks(times, clocks)
    # Of a step that was not read, its beginning may be known, from the end of the one before it.
    was_read = has_all or (clocks[0] >= 0 and sum(clock >= 0 for clock in clocks) > 1)
    if not was_read and rates.fill(line):
        return True
    has_cpu = has_all or _fill_clocks(times, clocks)
    if was_read:
        rates.learn(line)
    return has_cpu


def _fill_clocks(times: list[int], clocks: list[int]) -> bool:
    """Put values for the readings that are missing. False: there is no reading at all.

    Between two readings the clock is taken to run evenly; before the first and after the last it
    is taken to stand.
    """
    before = -1  # the place of the last reading
    for place, clock in enumerate(clocks):
        if clock < 0:
            continue
        if before < 0:
            clocks[:place] = [clock] * place
        elif place - before > 1:
            ran, lasted = clock - clocks[before], times[place] - times[before]
            for missing in range(before + 1, place):
                part = times[missing] - times[before]
                clocks[missing] = clocks[before] + ran * part // lasted
        before = place
    missing_from = before + 1
    clocks[missing_from:] = [clocks[before] if before >= 0 else 0] * (len(clocks) - missing_from)
    return before >= 0
