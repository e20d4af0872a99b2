"""Fewer steps a second, though steps alone are as quick as ever."""

from __future__ import annotations

import pytest

from stepscope.model.watching import StepSeen
from stepscope.monitor.rule_settings import Throughput
from stepscope.monitor.rules.throughput import ThroughputRule
from tests.unit.monitor.streams import Run, monitor_of

RULES = {"rules": {"throughput": {"steps": 50}}}


def test_evaluations_that_take_longer_are_told_as_that() -> None:
    run = Run(
        monitor_of(RULES),
        evaluation_every=20,
        evaluation_s=1.0,
        extra_s=lambda n, rank: {"evaluation": 2.0} if n > 2000 and n % 20 == 0 else {},
    )
    run.train(3500)
    (alert,) = run.firing
    assert (alert.rule, alert.finding.kind) == ("throughput", "validation")
    # 0.15 s a step with its part of an evaluation, 0.25 s later.
    assert alert.finding.measures["ratio"] == pytest.approx(0.25 / 0.15, rel=0.05)
    assert 1990 <= (alert.step or 0) <= 2210


def test_saves_that_take_longer_are_told_as_that_and_over_when_they_are_quick_again() -> None:
    run = Run(
        monitor_of({**RULES, "watch": {"resolve": "1s"}}),
        save_every=20,
        save_s=1.0,
        extra_s=lambda n, rank: {"checkpoint save": 2.0} if 2000 < n < 3000 and n % 20 == 0 else {},
    )
    run.train(4000)
    assert [(a.rule, a.finding.kind, a.is_firing) for a in run.told] == [
        ("throughput", "checkpoint-save", True),
        ("throughput", "checkpoint-save", False),
    ]


def test_an_evaluation_now_and_then_that_takes_long_is_none() -> None:
    run = Run(
        monitor_of(RULES),
        evaluation_every=20,
        evaluation_s=1.0,
        extra_s=lambda n, rank: {"evaluation": 5.0} if n == 2000 else {},
    )
    assert run.train(3500).told == []


def test_steps_that_are_slower_by_themselves_are_a_slow_down() -> None:
    run = Run(
        monitor_of(RULES),
        evaluation_every=20,
        evaluation_s=1.0,
        extra_s=lambda n, rank: {"forward": 0.05} if n > 2000 else {},
    )
    assert run.train(3500).names() == [("slowdown", "slowdown")]


def test_where_only_some_steps_are_told_their_numbers_count_all_of_them() -> None:
    """Ten of every hundred, each 0.1 s; from the 3,000th on all hundred take 15 s instead of 10."""
    rule, now_ns, found = ThroughputRule(Throughput(steps=10)), 0, []
    for hundred in range(60):
        for place in range(1, 11):
            number = 100 * hundred + place
            end_ns = now_ns + place * 100_000_000
            rule.step(
                StepSeen(0, number, end_ns - 100_000_000, end_ns, {"forward": 100_000_000}, False)
            )
        now_ns += 10_000_000_000 if hundred < 30 else 15_000_000_000
        found += [(100 * hundred, one) for one in rule.conditions(now_ns)]
    assert found[0][0] >= 3000
    first = found[0][1]
    assert first.measures["ratio"] == pytest.approx(1.5, rel=0.1)
    assert first.measures["usual_step_s"] == pytest.approx(0.1, rel=0.05)


def test_a_rank_that_was_started_again_counts_its_steps_anew() -> None:
    rule, now_ns = ThroughputRule(Throughput(steps=10)), 0
    for _ in range(2):
        for number in range(1, 3000):
            end_ns = now_ns + 100_000_000
            rule.step(StepSeen(0, number, now_ns, end_ns, {"forward": 100_000_000}, False))
            now_ns = end_ns
            assert list(rule.conditions(now_ns)) == []
        now_ns += 3600_000_000_000
