"""Whole runs with known faults: exactly those are told, and nothing of a healthy one."""

from __future__ import annotations

import gc
import json
import math
from typing import Any

import pytest

from stepscope.model.alert import Alert
from stepscope.model.finding import Location, Recommendation
from stepscope.model.watching import Condition, Explained, Reading, StepSeen
from tests.unit.monitor.streams import GIB, HEALTHY, SECOND_NS, UNIX, Run, monitor_of


@pytest.mark.parametrize(
    ("seed", "noise", "ranks"), [(0, 0.01, 1), (1, 0.05, 2), (2, 0.10, 1), (3, 0.03, 3)]
)
def test_a_healthy_run_raises_nothing(seed: int, noise: float, ranks: int) -> None:
    """With warm-up, evaluation, saves, noise, a cache that is emptied every minute."""
    run = Run(
        monitor_of(),
        seed=seed,
        noise=noise,
        ranks=ranks,
        evaluation_every=100 + 50 * seed,
        save_every=250,
        gauges=HEALTHY,
    )
    run.train(1000).end()
    assert run.told == []
    summary = run.monitor.summary()
    assert summary.steps == 1000 * ranks
    assert summary.broken == {}


def test_a_first_evaluation_that_takes_minutes_is_no_stall_while_the_program_works() -> None:
    run = Run(monitor_of(), evaluation_every=300, evaluation_s=240.0, gauges=HEALTHY)
    run.train(700).end()
    assert run.told == []


def test_a_stall_is_told_once_and_is_over_when_steps_go_on() -> None:
    run = Run(monitor_of(), evaluation_every=100)
    run.train(250).wait(90.0).train(200).end()
    assert run.names() == [("stall", "stall")]
    (stall,) = run.firing
    assert stall.step == 251  # in which it stands
    (over,) = run.resolved
    assert over.id == stall.id
    assert over.ended_unix is not None
    assert 85.0 <= over.ended_unix - over.began_unix <= 95.0


def test_all_ranks_that_stand_still_are_one_alert() -> None:
    run = Run(monitor_of(), ranks=4)
    run.train(100).wait(60.0)
    (stall,) = run.firing
    assert stall.ranks == (0, 1, 2, 3)


def test_a_slow_down_is_told_with_the_phase_that_grew_and_when_it_is_over() -> None:
    run = Run(
        monitor_of(),
        evaluation_every=100,
        gauges=HEALTHY,
        extra_s=lambda number, rank: {"forward": 0.015} if 400 <= number < 600 else {},
    )
    run.train(1000).end()
    assert run.names() == [("slowdown", "slowdown")]
    (slow,) = run.firing
    assert 395 <= (slow.step or 0) <= 405
    assert 1.10 <= slow.finding.measures["ratio"] <= 1.20
    assert slow.finding.share == pytest.approx(0.13, abs=0.03)
    assert any(line.startswith("forward:") for line in slow.finding.evidence)
    assert [alert.id for alert in run.resolved] == [slow.id]


def test_a_leak_a_stall_and_a_slow_down_are_told_each_once() -> None:
    run = Run(
        monitor_of(),
        evaluation_every=100,
        gauges={
            "memory_bytes": lambda t: 4 * GIB + max(0.0, t - 200) * 0.01 * GIB,
            "memory_limit_bytes": lambda t: 64 * GIB,
        },
        extra_s=lambda number, rank: {"forward": 0.02} if 800 <= number < 1000 else {},
    )
    run.train(500).wait(100.0).train(3000).end()
    assert sorted(run.names()) == [
        ("memory", "leak"),
        ("slowdown", "slowdown"),
        ("stall", "stall"),
    ]
    assert sorted(alert.id for alert in run.resolved) == sorted(alert.id for alert in run.firing)


def test_a_program_that_ends_has_not_stalled() -> None:
    run = Run(monitor_of()).train(200)
    run.now_s += 500.0  # nobody looked meanwhile
    run.end()
    assert run.told == []


def test_what_is_open_ends_with_the_run() -> None:
    run = Run(monitor_of()).train(200).wait(60.0).end()
    assert [alert.is_firing for alert in run.told] == [True, False]
    assert "It ended with the run." in run.told[1].finding.evidence
    assert run.monitor.open_alerts == []


def test_a_loss_that_breaks_in_the_last_second_is_told_at_the_end() -> None:
    run = Run(monitor_of()).train(20)
    run.monitor.reading(Reading(int(run.now_s * SECOND_NS), "loss", math.nan, step=20))
    run.end()
    assert run.names() == [("loss", "loss-not-finite")]
    assert len(run.resolved) == 1


def test_time_in_which_the_program_was_suspended_counts_for_no_rule() -> None:
    run = Run(monitor_of()).train(300)
    from_s = run.now_s
    run.now_s += 4000.0
    run.next_tick_s = run.now_s
    run.monitor.pause(int(from_s * SECOND_NS), int(run.now_s * SECOND_NS))
    run.wait(5.0).train(300)
    assert run.told == []
    run.wait(60.0)
    (stall,) = run.firing
    assert stall.began_unix == pytest.approx(UNIX + run.now_s - 60.0, abs=0.5)


def test_a_wall_clock_that_jumps_does_not_move_what_began() -> None:
    run = Run(monitor_of()).train(200)
    now_ns = int((run.now_s + 40.0) * SECOND_NS)
    (stall,) = run.monitor.tick(now_ns, 5_000_000.0)
    assert stall.told_unix == 5_000_000.0
    assert stall.began_unix == pytest.approx(5_000_000.0 - 40.0, abs=0.2)


def test_an_alert_is_a_finding_with_what_a_closer_look_gave() -> None:
    asked: list[Condition] = []

    def explain(condition: Condition) -> Explained:
        asked.append(condition)
        advice = Recommendation("Do this", "Then that")
        return Explained("input-io", Location("train.py", 7), ("disk",), ("more",), advice)

    run = Run(
        monitor_of(explain=explain),
        extra_s=lambda number, rank: {"input wait": 0.05} if number >= 300 else {},
    )
    run.train(500)
    (alert,) = run.firing
    assert [condition.asks for condition in asked] == ["kinds:input"]
    assert asked[0].began_ns == pytest.approx((alert.began_unix - UNIX) * SECOND_NS, abs=1e6)
    assert alert.finding.kind == "input-io"
    assert (alert.finding.location.file, alert.finding.location.line) == ("train.py", 7)
    assert "disk" in alert.finding.evidence
    assert alert.finding.recommendation is not None
    assert Alert.from_dict(json.loads(json.dumps(alert.to_dict()))) == alert


def test_a_closer_look_that_fails_leaves_the_alert() -> None:
    def explain(condition: Condition) -> Explained:
        raise RuntimeError("no stacks")

    run = Run(monitor_of(explain=explain)).train(100).wait(60.0)
    assert run.names() == [("stall", "stall")]
    assert "no stacks" in run.monitor.summary().broken["explain"]


def test_rules_that_are_off_say_nothing() -> None:
    rules = {"rules": {"stall": {"enabled": False}}}
    assert Run(monitor_of(rules)).train(100).wait(60.0).told == []


def test_captures_are_promised_once_an_alert_and_not_more_than_a_run_may_have() -> None:
    rules = {
        "watch": {"captures": 2, "cooldown": 0, "resolve": 1},
        "rules": {"stall": {"capture": True}},
    }
    run = Run(monitor_of(rules)).train(50)
    answers = []
    for _ in range(3):
        run.told.clear()
        run.wait(60.0)
        (stall,) = run.firing
        answers += [run.monitor.wants_capture(stall), run.monitor.wants_capture(stall)]
        run.train(20).wait(3.0)
    assert answers == [True, False, True, False, False, False]
    assert not run.monitor.wants_capture(run.resolved[0])
    assert run.monitor.summary().captures == 2


def test_a_capture_is_attached_to_its_alert_even_when_that_is_over() -> None:
    run = Run(monitor_of({"watch": {"resolve": 1}})).train(50).wait(60.0)
    (stall,) = run.firing
    found = run.monitor.attach_capture(stall.id, "captures/1.json")
    assert found is not None
    assert found.capture == run.monitor.open_alerts[0].capture == "captures/1.json"
    run.train(20).wait(3.0)
    assert run.resolved[0].capture == "captures/1.json"
    late = run.monitor.attach_capture(stall.id, "captures/2.json")
    assert late is not None
    assert late.capture == "captures/2.json"
    assert run.monitor.attach_capture("unknown", "x") is None


def test_names_and_ranks_without_end_are_bounded_and_counted() -> None:
    monitor = monitor_of({"threshold": [{"metric": "mine", "above": 1}]})
    for number in range(3000):
        monitor.reading(Reading(number, f"mine {number}", 1.0))
        monitor.reading(Reading(number, "gpu_busy_ratio", 1.0, label=str(number)))
        monitor.reading(Reading(number, f"loss {number}", math.nan))
        monitor.step(StepSeen(number, 1, number, number + 1, {}))
    summary = monitor.summary()
    assert len(summary.metrics) <= 1300
    assert summary.left_out >= 2800 + 2000 - 1000 + 1900
    assert summary.not_finite == 3000


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 1e308, -1e308, 0.0, -0.0, 5e-324])
def test_strange_values_break_nothing(value: float) -> None:
    monitor = monitor_of({"threshold": [{"metric": name, "above": 0.5} for name in HEALTHY]})
    for second in range(100):
        now_ns = second * SECOND_NS
        monitor.step(StepSeen(0, second + 1, now_ns, now_ns, {}))
        for name in HEALTHY:
            metric, _, label = name.partition(" ")
            monitor.reading(Reading(now_ns, metric, value, label))
        for alert in monitor.tick(now_ns, UNIX + second):
            json.dumps(alert.to_dict(), allow_nan=False)
    assert monitor.summary().broken == {}


def test_times_that_go_back_break_nothing() -> None:
    monitor = monitor_of()
    for number in range(200):
        now_ns = (number * 7919 % 200) * SECOND_NS
        monitor.step(StepSeen(0, number, now_ns, now_ns + SECOND_NS, {"forward": SECOND_NS}))
        monitor.step(StepSeen(0, number, now_ns + 5, now_ns, {}))
        monitor.reading(Reading(now_ns, "memory_bytes", 1e9))
        monitor.tick(now_ns, UNIX)
    assert monitor.summary().broken == {}


def test_the_summary_says_what_each_metric_did() -> None:
    run = Run(monitor_of(), gauges={"steps_per_second": lambda t: 10.0 - 0.01 * t})
    run.train(3000)
    metrics = {key.metric: value for key, value in run.monitor.summary().metrics.items()}
    speed = metrics["steps_per_second"]
    assert speed.low == speed.last
    assert speed.peak == 10.0
    assert speed.low < speed.p50 < speed.p95 <= speed.p99 <= speed.peak
    assert speed.average == pytest.approx((speed.low + speed.peak) / 2, rel=0.01)
    assert speed.trend is not None
    assert speed.trend.slope == pytest.approx(-0.01, rel=0.01)
    assert speed.forecast is not None
    assert speed.forecast.value == pytest.approx(speed.last - 0.01 * speed.ahead_s, abs=0.1)
    steps = metrics["step_seconds"]
    assert steps.count == 3000
    assert steps.p50 == pytest.approx(0.1, rel=0.02)


def test_memory_of_the_monitor_does_not_grow_with_the_run() -> None:
    """By the number of values that can be reached from it."""
    sizes = []
    run = Run(monitor_of(), gauges=HEALTHY, evaluation_every=100, tick_s=3.0)
    for steps in (2000, 4000):
        run.train(steps)
        sizes.append(_reachable(run.monitor))
    assert sizes[1] <= 1.3 * sizes[0]


def _reachable(root: Any) -> int:
    seen: set[int] = set()
    waiting = [root]
    while waiting:
        one = waiting.pop()
        if id(one) in seen or isinstance(one, type) or callable(one):
            continue
        seen.add(id(one))
        waiting += [
            other
            for other in gc.get_referents(one)
            if not isinstance(other, type) and type(other).__name__ != "module"
        ]
    return len(seen)
