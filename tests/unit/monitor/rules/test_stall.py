"""No step for far longer than usual."""

from __future__ import annotations

import pytest

from stepscope.model.alert import Alert
from stepscope.model.watching import Reading, StepSeen, StepsPassed
from stepscope.monitor.rule_settings import Stall
from stepscope.monitor.rules.stall import StallRule
from tests.unit.monitor.streams import SECOND_NS, Run, monitor_of


def rule_after(steps: int, step_s: float, settings: Stall | None = None) -> tuple[StallRule, float]:
    """And the time at which the last step ended."""
    rule = StallRule(settings or Stall(after=10.0, least_s=5.0))
    for number in range(1, steps + 1):
        start_ns = int((number - 1) * step_s * SECOND_NS)
        rule.step(StepSeen(0, number, start_ns, int(number * step_s * SECOND_NS), {}))
    return rule, steps * step_s


def is_stalled(rule: StallRule, at_s: float) -> bool:
    return bool(list(rule.conditions(int(at_s * SECOND_NS))))


def test_it_speaks_after_so_many_times_the_usual_step() -> None:
    rule, end_s = rule_after(20, step_s=1.0)
    assert not is_stalled(rule, end_s + 9.9)
    assert is_stalled(rule, end_s + 10.1)


def test_short_steps_have_to_be_missing_for_the_least_time() -> None:
    rule, end_s = rule_after(20, step_s=0.01)
    assert not is_stalled(rule, end_s + 4.9)
    assert is_stalled(rule, end_s + 5.1)


def test_a_few_steps_say_nothing_yet() -> None:
    rule, end_s = rule_after(4, step_s=1.0)
    assert not is_stalled(rule, end_s + 1000.0)


def test_an_evaluation_as_long_as_the_longest_so_far_is_no_stall() -> None:
    rule, end_s = rule_after(20, step_s=1.0)
    end_ns = int((end_s + 60.0) * SECOND_NS)
    rule.step(StepSeen(0, 21, int(end_s * SECOND_NS), end_ns, {}, is_special=True))
    assert not is_stalled(rule, end_s + 60.0 + 119.0)
    assert is_stalled(rule, end_s + 60.0 + 121.0)


def _busy(rule: StallRule, from_s: float, to_s: float, cpus: float) -> None:
    for second in range(int(from_s) + 1, int(to_s)):
        rule.reading(Reading(second * SECOND_NS, "cpu_ratio", cpus))


def test_a_program_that_works_as_ever_is_given_more_time() -> None:
    rule, end_s = rule_after(20, step_s=1.0, settings=Stall(after=10.0, least_s=5.0, busy_s=300.0))
    rule.reading(Reading(int(end_s * SECOND_NS), "cpu_ratio", 2.0))
    _busy(rule, end_s, end_s + 200.0, 1.8)
    assert not is_stalled(rule, end_s + 200.0)
    assert is_stalled(rule, end_s + 301.0)


def test_a_program_that_waits_is_not() -> None:
    rule, end_s = rule_after(20, step_s=1.0, settings=Stall(after=10.0, least_s=5.0, busy_s=300.0))
    rule.reading(Reading(int(end_s * SECOND_NS), "cpu_ratio", 2.0))
    _busy(rule, end_s, end_s + 12.0, 0.05)
    (found,) = rule.conditions(int((end_s + 12.0) * SECOND_NS))
    # The limit is 10 s, and 0.05 of about 2 CPUs is 2.5 % of its usual work.
    assert found.confidence == pytest.approx(1 - 0.5 * 10 / 12 * 0.025, abs=0.001)
    assert found.asks == "stall"


def test_it_is_surer_the_longer_it_lasts_where_nobody_knows_what_the_program_does() -> None:
    rule, end_s = rule_after(20, step_s=1.0)
    at_once, later = (
        next(iter(rule.conditions(int((end_s + waited_s) * SECOND_NS)))).confidence
        for waited_s in (10.0, 100.0)
    )
    assert [at_once, later] == pytest.approx([0.5, 0.95])


def test_it_is_worse_the_longer_it_lasts() -> None:
    rule, end_s = rule_after(20, step_s=1.0)
    first, later = (
        next(iter(rule.conditions(int((end_s + waited_s) * SECOND_NS)))).severity
        for waited_s in (11.0, 90.0)
    )
    assert 0.75 <= first < later <= 1.0


def test_one_rank_of_several_that_stands_still_is_named() -> None:
    run = Run(monitor_of({"rules": {"rank_behind": {"enabled": False}}}), ranks=1).train(100)
    for number in range(1, 60):
        start_ns = int((1000.0 + number * 0.2) * SECOND_NS)
        run.monitor.step(StepSeen(1, number, start_ns, start_ns + SECOND_NS // 5, {}))
    run.train(600)
    (stall,) = run.firing
    assert stall.ranks == (1,)
    assert stall.finding.location.rank == 1


def test_a_process_that_has_ended_makes_no_steps_and_is_no_stall() -> None:
    rule, end_s = rule_after(20, step_s=1.0)
    rule.left(0)
    assert not is_stalled(rule, end_s + 1000.0)


def test_steps_that_nobody_looked_at_are_steps_all_the_same() -> None:
    monitor = monitor_of({"rules": {"stall": {"least": "5s"}}})
    run = Run(monitor).train(100)
    start_ns = int(run.now_s * SECOND_NS)
    told: list[tuple[int, Alert]] = []
    for second in range(1, 60):
        now_ns = start_ns + second * SECOND_NS
        if second < 40:
            monitor.passed(StepsPassed(0, 100 + 10 * second, now_ns - SECOND_NS // 2))
        told += [(second, alert) for alert in monitor.tick(now_ns, 0.0)]
    (second, stall), *_ = told
    assert stall.rule == "stall"
    assert 44 <= second <= 46
    assert "The last step, 490, ended" in " ".join(stall.finding.evidence)


def test_steps_of_a_rank_that_was_never_seen_are_no_reason_to_wait_for_it() -> None:
    monitor = monitor_of({"rules": {"stall": {"least": "5s"}}})
    monitor.passed(StepsPassed(3, 100, 0))
    assert monitor.tick(3600 * SECOND_NS, 0.0) == []
