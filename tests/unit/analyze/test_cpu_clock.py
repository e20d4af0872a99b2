"""CPU time by phase of programs whose truth is known: they run under clocks of our own."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from stepscope.analyze.loop import Loop
from stepscope.analyze.phases import CpuClock, attribute, sum_up
from stepscope.analyze.spans import BACKWARD, FORWARD, OPTIMIZER, PHASES, LoopSpan
from stepscope.model import names
from stepscope.model.phases import Phase
from stepscope.record.twin import TwinCore
from tests.contract.frames_reader import decode
from tests.unit.analyze.made import MS, Event, loop

_PHASE = {
    names.FORWARD: Phase.FORWARD,
    names.BACKWARD: Phase.BACKWARD,
    names.OPTIMIZER_STEP: Phase.OPTIMIZER,
}


class Program:
    """A training thread that is on a CPU, or is not, for exactly as long as it is told."""

    def __init__(self) -> None:
        self._now_ns = self._cpu_ns = 1_000_000_000
        self.core: Any = TwinCore(lambda: self._now_ns, lambda: self._cpu_ns)
        self.ran: dict[Phase, float] = dict.fromkeys(Phase, 0.0)
        self.events: list[Event] = []
        self._names: dict[int, str] = {}
        self._steps = 0

    def work(self, ms: float, share: float = 1.0, name: str = "") -> None:
        token = self.core.begin(self.core.intern(name), 7, 1.0) if name else -1
        self._now_ns += round(ms * MS)
        self._cpu_ns += round(ms * share * MS)
        self.core.end(token)
        self.ran[_PHASE.get(name, Phase.PYTHON_BETWEEN)] += ms * share

    def step(self, forward: float, backward: float, optimizer: float, **waits: float) -> None:
        """`after` and `between`: a wait after the forward, and one before the step."""
        self.work(waits.get("between", 0.0), 0.0)
        self.work(forward, waits.get("forward_share", 1.0), names.FORWARD)
        self.work(backward, waits.get("backward_share", 1.0), names.BACKWARD)
        self.work(waits.get("after", 0.0), 0.0)
        self.work(optimizer, 1.0, names.OPTIMIZER_STEP)
        self._steps += 1
        self.core.set_step(self._steps)
        decoded = decode(self.core.drain(), self._names)
        self._names = decoded.names
        self.events += [{k: v for k, v in row.items() if k != "text"} for row in decoded.rows]

    def loop(self) -> Loop:
        return loop(self.events)


def uneven(program: Program, number: int, ms: float) -> None:
    """Steps that compute, steps that are light, and steps that mostly sleep."""
    if number % 3 == 0:
        program.step(ms, 2 * ms, 0.3 * ms)
    elif number % 3 == 1:
        program.step(0.1 * ms, 0.1 * ms, 0.3 * ms, between=0.4 * ms)
    else:
        program.step(0.3 * ms, 0.4 * ms, 0.3 * ms, between=3 * ms, after=0.5 * ms)


def alternating(program: Program, number: int, ms: float) -> None:
    if number % 2:
        program.step(ms, ms, 0.5 * ms)
    else:
        program.step(0.2 * ms, 0.2 * ms, 0.5 * ms, backward_share=0.1, between=ms)


def drawn(program: Program, number: int, ms: float) -> None:
    draw = random.Random(number).random
    waits = {"between": ms * draw() * (draw() < 0.3), "backward_share": draw()}
    program.step(ms * draw(), ms * draw(), 0.2 * ms * draw(), **waits)


@pytest.mark.parametrize("ms", [0.03, 0.2, 1.0, 7.0, 40.0])
@pytest.mark.parametrize("shape", [uneven, alternating, drawn])
def test_the_total_is_exact_however_steps_differ(
    shape: Callable[[Program, int, float], None], ms: float
) -> None:
    program = Program()
    for number in range(600):
        shape(program, number, ms)
    found = program.loop()
    total = sum(time.cpu_ns or 0 for time in found.phases.values()) / MS
    assert total == pytest.approx(sum(program.ran.values()), rel=0.01, abs=0.6)  # the last readings
    for phase, time in found.phases.items():
        assert (time.cpu_ns or 0) <= time.wall_ns + 1
        within = 0.03 if ms >= 0.2 else 0.08  # of the loop: divided by rates where steps are short
        assert (time.cpu_ns or 0) / MS == pytest.approx(
            program.ran[phase], abs=within * found.wall_ns / MS
        )


def test_a_thread_that_always_ran_is_on_a_cpu_all_of_the_time() -> None:
    program = Program()
    for number in range(900):
        ms = 3.0 if number % 37 == 0 else 0.04  # a long update after many short ones, as in PPO
        program.step(ms, ms, 0.02)
    found = program.loop()
    assert sum(time.cpu_ns or 0 for time in found.phases.values()) >= 0.995 * found.wall_ns


def test_what_ran_between_two_readings_is_divided_by_the_rates_of_read_pieces() -> None:
    clock = CpuClock()
    read = [LoopSpan(0, 100, FORWARD, 1, 1.0, 0, 100), LoopSpan(100, 200, BACKWARD, 0, 0, 100, 20)]
    sum_up(attribute(read, 0, 200, 0, None), clock)
    # 300 ns of each, read only at the end: 270 ns ran, where the rates make it 360.
    later = [
        LoopSpan(200, 500, FORWARD, 1, 1.0),
        LoopSpan(500, 800, BACKWARD, 0, 0.0, -2 - (120 + 270), -1),
    ]
    time = sum_up(attribute(later, 200, 800, 120, None), clock)
    assert time.cpu_ns[PHASES.index(Phase.FORWARD)] == 225
    assert time.cpu_ns[PHASES.index(Phase.BACKWARD)] == 45


def test_no_piece_runs_longer_than_it_lasts() -> None:
    clock = CpuClock()
    read = [LoopSpan(0, 100, FORWARD, 1, 1.0, 0, 100), LoopSpan(100, 200, BACKWARD, 0, 0, 100, 20)]
    sum_up(attribute(read, 0, 200, 0, None), clock)
    later = [
        LoopSpan(200, 500, FORWARD, 1, 1.0),
        LoopSpan(500, 800, BACKWARD, 0, 0.0, -2 - (120 + 540), -1),
    ]
    time = sum_up(attribute(later, 200, 800, 120, None), clock)
    assert time.cpu_ns[PHASES.index(Phase.FORWARD)] == 300
    assert time.cpu_ns[PHASES.index(Phase.BACKWARD)] == 240


def test_a_step_without_a_reading_is_corrected_by_the_next_one() -> None:
    clock = CpuClock()
    read = [LoopSpan(0, 100, OPTIMIZER, 1, 0.0, 0, 50)]
    first = sum_up(attribute(read, 0, 100, 0, None), clock)
    unread = sum_up(attribute([LoopSpan(100, 200, OPTIMIZER)], 100, 200, 50, None), clock)
    last_row = LoopSpan(200, 300, OPTIMIZER, 1, 0.0, -2 - 80, -1)
    last = sum_up(attribute([last_row], 200, 300, -1, None), clock)
    assert [sum(time.cpu_ns) for time in (first, unread, last)] == [50, 50, 0]
    again = LoopSpan(300, 400, OPTIMIZER, 1, 0.0, -2 - 150, -1)
    assert sum(sum_up(attribute([again], 300, 400, 80, None), clock).cpu_ns) == 50


def test_a_long_first_step_says_nothing_about_later_ones() -> None:
    """The first forward compiles in other processes for 3 s; then it computes, and every backward
    is blocked half of the time."""
    program = Program()
    program.step(3_000, 0.1, 0.1, forward_share=0.1)
    for _ in range(8_000):
        program.step(0.07, 0.13, 0.01, backward_share=0.5)

    found = program.loop()

    for phase in (Phase.FORWARD, Phase.BACKWARD):
        assert found.phases[phase].cpu_ns == pytest.approx(program.ran[phase] * MS, rel=0.1)
