"""Ordinary steps that take longer than they did."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from stepscope.model.watching import StepSeen
from stepscope.monitor.rule_settings import Slowdown
from stepscope.monitor.rules.slowdown import SlowdownRule
from tests.unit.monitor.streams import HEALTHY, Run, monitor_of

SOON = {"watch": {"hold": "0.5s"}}
LATER = {"watch": {"hold": "5s"}}


def slow_from(first: int, phase: str, more_s: float, rules: Mapping[str, Any] = SOON) -> Run:
    def extra_s(number: int, rank: int) -> Mapping[str, float]:
        return {phase: more_s} if number >= first else {}

    return Run(monitor_of(rules), evaluation_every=100, extra_s=extra_s)


@pytest.mark.parametrize("phase", ["forward", "backward", "optimizer", "python between"])
def test_the_phase_that_grew_is_asked_about(phase: str) -> None:
    run = slow_from(300, phase, 0.02).train(400)
    (slow,) = run.firing
    assert slow.rule == "slowdown"
    assert max((value, name) for name, value in slow.finding.measures.items() if "grown" in name)[
        1
    ] == (f"grown_s.{phase}")


def test_a_small_slow_down_is_found_soon() -> None:
    run = slow_from(300, "forward", 0.006).train(340)
    (slow,) = run.firing
    assert 0.3 <= slow.severity <= 0.6


def test_ten_times_as_slow_is_told_as_that() -> None:
    (slow,) = slow_from(300, "forward", 0.9).train(320).firing
    assert slow.finding.measures["ratio"] == pytest.approx(10.0, rel=0.05)
    assert slow.severity > 0.9


def test_a_rank_that_makes_the_others_wait_is_the_one_told_of() -> None:
    run = Run(
        monitor_of(),
        ranks=4,
        gauges=HEALTHY,
        extra_s=lambda number, rank: {"input wait": 0.03} if rank == 2 and number >= 300 else {},
    )
    run.train(500)
    (slow,) = run.firing
    assert slow.ranks == (0, 1, 2, 3)
    assert slow.finding.location.rank == 2
    assert any(line.startswith("input wait:") for line in slow.finding.evidence)


def test_it_has_to_last_as_long_as_the_watch_says() -> None:
    def moment(number: int, rank: int) -> Mapping[str, float]:
        return {"forward": 0.02} if 300 <= number < 350 else {}

    assert Run(monitor_of(), extra_s=moment).train(600).told == []
    assert len(Run(monitor_of(SOON), extra_s=moment).train(600).firing) == 1


@pytest.mark.parametrize(("busy_now", "is_told"), [(0.99, True), (0.45, False)])
def test_a_machine_that_has_no_cpu_left_is_named(busy_now: float, is_told: bool) -> None:
    run = slow_from(600, "forward", 0.05, LATER)
    run.gauges = {"host_cpu_ratio": lambda t: busy_now if run.number >= 600 else 0.4}
    run.train(800)
    (slow,) = run.firing
    (still,) = run.monitor.open_alerts
    assert still.id == slow.id
    told = [line for line in slow.finding.evidence if line.startswith("The machine's CPUs")]
    assert bool(told) is is_told


def test_our_own_closer_looks_are_not_held_against_the_program() -> None:
    assert slow_from(300, "profiling", 0.05).train(600).told == []


def test_longer_evaluations_are_no_slow_down_of_steps() -> None:
    run = Run(
        monitor_of({"rules": {"throughput": {"enabled": False}}}),
        evaluation_every=10,
        extra_s=lambda n, rank: {"evaluation": 5.0} if n >= 300 and n % 10 == 0 else {},
    )
    assert run.train(600).told == []


def test_steps_that_become_faster_are_no_slow_down() -> None:
    run = Run(monitor_of(), extra_s=lambda number, rank: {"forward": 0.1} if number < 300 else {})
    assert run.train(900).told == []


def test_nobody_is_told_that_steps_are_slow_when_they_are_not_any_more() -> None:
    rule, now_ns = SlowdownRule(Slowdown()), 0
    ratios: list[float] = []
    for number in range(1, 400):
        is_slow, noise = 300 <= number < 340, 0.001 * (number % 3)
        forward_ns = round((0.15 if is_slow else 0.1 + noise) * 1e9)
        seen = StepSeen(0, number, now_ns, now_ns + forward_ns, {"forward": forward_ns}, False)
        now_ns = seen.end_ns
        rule.step(seen)
        ratios += [one.measures["ratio"] for one in rule.conditions(now_ns)]
    assert max(ratios) > 1.4
    assert min(ratios) > 1.025
