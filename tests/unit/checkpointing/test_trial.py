"""Steps in turns, on a clock and a memory that are made up."""

from __future__ import annotations

import pytest

from stepscope.checkpointing.meter import Marked
from stepscope.checkpointing.trial import Trial


class Machine:
    """A step of each arm takes its own time and memory; the machine slows down as it goes on."""

    def __init__(self) -> None:
        self.arm, self.now_ms, self.peak, self.log = "", 0.0, 0, ""
        self.speed = 1.0

    def switch(self, arm: str) -> None:
        self.arm = arm

    def step(self) -> None:
        ms, peak = {"a": (100.0, 500), "b": (130.0, 300)}[self.arm]
        self.now_ms += ms * self.speed
        self.speed *= 1.01
        self.peak = max(self.peak, peak)
        self.log += self.arm

    def settle(self) -> None: ...

    def mark(self) -> Marked:
        peak, self.peak = self.peak, 0
        return Marked(peak, 0)

    def moment(self) -> float:
        return self.now_ms

    def ms(self, began: float, ended: float) -> float:
        return ended - began

    def close(self) -> None: ...


def run(rounds: int) -> tuple[Machine, Trial]:
    machine = Machine()
    arms = {"a": lambda: machine.switch("a"), "b": lambda: machine.switch("b")}
    trial = Trial(machine, arms, rounds)
    for _ in trial.run():
        machine.step()
    return machine, trial


def test_arms_take_turns_there_and_back() -> None:
    machine, _ = run(rounds=3)

    assert machine.log == "aaaabbbbbbbbaaaaaaaabbbb"


def test_a_drift_of_the_machine_does_not_count_for_one_arm() -> None:
    _, trial = run(rounds=8)
    outcome = trial.outcome("b")

    assert outcome.ratio_low is not None
    assert outcome.ratio_high is not None
    assert outcome.ratio_low <= 1.3 <= outcome.ratio_high
    assert outcome.steps == 24


def test_each_arm_has_the_peak_of_its_own_steps() -> None:
    _, trial = run(rounds=2)

    assert trial.outcome("a").peak_bytes == 500
    assert trial.outcome("b").peak_bytes == 300


def test_the_first_arm_is_as_fast_as_itself() -> None:
    _, trial = run(rounds=4)

    assert trial.outcome("a").ratio_low == pytest.approx(1.0)
