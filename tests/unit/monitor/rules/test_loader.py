"""Training waits more for its data than it did."""

from __future__ import annotations

from collections.abc import Callable

from tests.unit.monitor.streams import HEALTHY, Run, monitor_of


def run_with(waiting: Callable[[float], float], steps: int = 400) -> Run:
    return Run(monitor_of(), step_s=0.5, gauges={**HEALTHY, "input_wait_ratio": waiting}).train(
        steps
    )


def test_more_waiting_than_usual_is_told_and_over_when_it_is_back() -> None:
    run = run_with(lambda t: 0.4 if 80 < t < 130 else 0.1)
    assert [(alert.rule, alert.is_firing) for alert in run.told] == [
        ("loader", True),
        ("loader", False),
    ]
    assert 0.1 < run.told[0].finding.share <= 0.3


def test_a_program_that_always_waited_waits_as_usual() -> None:
    assert run_with(lambda t: 0.6).told == []


def test_a_first_batch_that_takes_long_is_none() -> None:
    assert run_with(lambda t: 1.0 if t < 20 else 0.1).told == []


def test_a_slow_down_of_steps_and_the_waiting_behind_it_are_one_alert() -> None:
    run = Run(
        monitor_of(),
        gauges={**HEALTHY, "input_wait_ratio": lambda t: 0.4 if t > 81.5 else 0.1},
        extra_s=lambda number, rank: {"input wait": 0.05} if number >= 800 else {},
    )
    run.train(1500)
    (alert,) = run.firing
    assert alert.rule == "slowdown"
    (still,) = run.monitor.open_alerts
    assert any(line.startswith("Also: Waits for data") for line in still.finding.evidence)
