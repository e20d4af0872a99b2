"""Costs corrected by what a made-up machine really takes."""

from __future__ import annotations

from typing import Any

import pytest

from stepscope.checkpointing.candidates import Candidate
from stepscope.checkpointing.meter import Marked
from stepscope.checkpointing.probe import Corrections, corrected, probe
from stepscope.model.checkpoint_plan import ALL, CHEAP, CheckpointPlan, Segment


class Machine:
    """Manager, meter and training at once: recomputing takes `factor` times what was predicted."""

    def __init__(self, factors: dict[str, float], noise_ms: float = 0.0) -> None:
        self.factors, self.noise_ms, self.steps = factors, noise_ms, 0
        self.now_ms = 0.0
        self.plan = CheckpointPlan(())
        self.tried: list[CheckpointPlan] = []

    def apply(self, plan: CheckpointPlan) -> None:
        self.plan = plan
        self.tried.append(plan)

    def remove(self) -> None:
        self.plan = CheckpointPlan(())

    def step(self) -> None:
        ms = [10.0 * self.factors[one.recompute] for one in self.plan.segments]
        self.steps += 1
        self.now_ms += 100.0 + sum(ms) + (self.noise_ms if self.steps % 4 == 0 else 0.0)

    def settle(self) -> None: ...

    def mark(self) -> Marked:
        return Marked(0, 0)

    def moment(self) -> float:
        return self.now_ms

    def ms(self, began: float, ended: float) -> float:
        return ended - began

    def close(self) -> None: ...


def candidate(at: int, recompute: str = ALL, calls: int = 1) -> Candidate:
    segment = Segment(f"b.{at}" if calls == 1 else "b", recompute)
    return Candidate(segment, 100, 10.0 * calls, (), (), (range(at, at + calls),))


FOUND = [
    candidate(0, calls=4),  # holds the others
    *(candidate(at) for at in range(4)),
    *(candidate(at, CHEAP) for at in range(4)),
]


def probed(machine: Machine, found: list[Candidate]) -> Corrections:
    answers: list[Corrections] = []

    def course() -> Any:
        answers.append((yield from probe(found, machine, machine)))  # type: ignore[arg-type]

    for _ in course():
        machine.step()
    return answers[0]


def test_what_recomputing_really_takes_corrects_what_was_predicted() -> None:
    found = probed(Machine({ALL: 0.8, CHEAP: 1.3}), FOUND)

    assert found == pytest.approx((0.8, 1.3))
    costs = {one.segment: one.recompute_ms for one in corrected(FOUND, found)}
    assert costs[Segment("b.1")] == pytest.approx(8.0)
    assert costs[Segment("b.1", CHEAP)] == pytest.approx(13.0)


def test_modules_are_tried_one_by_one_and_not_what_holds_them() -> None:
    machine = Machine({ALL: 1.0, CHEAP: 1.0})
    probed(machine, FOUND)

    assert {one.label for plan in machine.tried for one in plan.segments} == {
        "b.0",
        "b.1",
        "b.2",
        "b.3",
    }
    assert machine.plan.segments == ()


def test_a_machine_that_did_something_else_is_not_believed() -> None:
    assert probed(Machine({ALL: 50.0, CHEAP: 0.0}), FOUND) == (2.0, 0.5)


def test_the_noisier_the_machine_the_less_it_corrects() -> None:
    quiet, noisy = (probed(Machine({ALL: 1.4, CHEAP: 1.4}, ms), FOUND) for ms in (0.0, 60.0))

    assert quiet.of_all == pytest.approx(1.4)
    assert abs(noisy.of_all - 1.0) < abs(quiet.of_all - 1.0)


def test_with_nothing_to_try_nothing_is_corrected() -> None:
    assert probed(Machine({}), []) == Corrections()
