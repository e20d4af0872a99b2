"""Single steps that took far longer than those around them."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tests.unit.monitor.streams import HEALTHY, Run, monitor_of


def run_with(odd: Mapping[int, float], steps: int = 600, step_s: float = 0.1) -> Run:
    """odd: seconds more, by the number of the step."""

    def extra_s(number: int, rank: int) -> Mapping[str, float]:
        return {"python between": odd[number]} if number in odd else {}

    return Run(
        monitor_of(), step_s=step_s, evaluation_every=100, gauges=HEALTHY, extra_s=extra_s
    ).train(steps)


def test_one_odd_step_is_told_with_what_it_lost() -> None:
    run = run_with({350: 3.0})
    assert run.names() == [("anomaly", "anomaly")]
    (odd,) = run.firing
    assert odd.step == 350
    assert odd.finding.measures["lost_s"] == pytest.approx(3.0, rel=0.05)
    assert "Most of it: python between." in odd.finding.evidence
    assert len(run.resolved) == 1


def test_an_odd_step_that_costs_little_is_not_worth_a_word() -> None:
    assert run_with({350: 0.5}).told == []


def test_several_in_a_row_are_a_slow_down_and_not_odd() -> None:
    run = run_with(dict.fromkeys(range(300, 400), 1.0), 390)
    assert run.names() == [("slowdown", "slowdown")]


def test_a_stall_that_is_over_is_not_told_again_as_an_odd_step() -> None:
    idle = {"cpu_ratio": lambda t: 0.02 if 45 < t < 140 else 1.9}
    run = Run(
        monitor_of(),
        gauges=idle,
        extra_s=lambda number, rank: {"input wait": 90.0} if number == 400 else {},
    )
    run.train(1200)
    assert run.names() == [("stall", "stall")]
    assert len(run.resolved) == 1


def test_an_odd_step_in_which_the_program_worked_is_told_as_that() -> None:
    run = run_with({350: 90.0})
    assert run.names() == [("anomaly", "anomaly")]
