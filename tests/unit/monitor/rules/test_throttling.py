"""A GPU that is busy and runs slower than it could."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from stepscope.model.watching import Reading
from stepscope.monitor.rule_settings import Throttling
from stepscope.monitor.rules.throttling import ThrottlingRule
from tests.unit.monitor.streams import HEALTHY, SECOND_NS, Run, monitor_of


def run_with(**gauges: Callable[[float], float]) -> Run:
    named = {f"gpu_{name} 0": gauge for name, gauge in gauges.items()}
    return Run(monitor_of(), step_s=0.5, gauges={**HEALTHY, **named}).train(400)


def test_a_clock_that_falls_while_it_is_hot_is_told_and_over_when_it_is_back() -> None:
    run = run_with(
        clock_ratio=lambda t: 0.7 if 80 < t < 130 else 0.95,
        temperature_celsius=lambda t: 88 if 80 < t < 130 else 70,
    )
    assert run.names() == [("throttling", "throttling")]
    firing, over = run.told
    assert firing.severity > 0.5
    assert not over.is_firing


@pytest.mark.parametrize(
    ("clock", "celsius", "confidence"),
    [
        (0.80, 70.0, 1 - 0.5 * 0.1 / 0.2),  # a loss of twice the limit, and cool
        (0.80, 85.0, 1 - (0.5 * 0.1 / 0.2) * (1 - 0.25)),  # five degrees below the limit
        (1.00, 95.0, 0.75),  # five degrees above it, and no loss
        (0.50, None, 1 - 0.5 * 0.1 / 0.5),
    ],
)
def test_confidence_is_how_far_clock_and_heat_are_beyond_their_limits(
    clock: float, celsius: float | None, confidence: float
) -> None:
    rule = ThrottlingRule(Throttling(over=0.1, celsius=90.0))
    for second in range(300):
        at_ns, is_hot = second * SECOND_NS, second > 200
        rule.reading(Reading(at_ns, "gpu_busy_ratio", 0.9, label="0"))
        rule.reading(Reading(at_ns, "gpu_clock_ratio", clock if is_hot else 1.0, label="0"))
        if celsius is not None:
            degrees = celsius if is_hot else 60.0
            rule.reading(Reading(at_ns, "gpu_temperature_celsius", degrees, label="0"))
    (found,) = rule.conditions(300 * SECOND_NS)
    assert found.confidence == pytest.approx(confidence)


def test_a_hot_gpu_is_told_before_it_slows_down() -> None:
    (alert,) = run_with(temperature_celsius=lambda t: 94 if t > 80 else 70).firing
    assert alert.finding.title == "GPU 0 is hot: 94 °C"
    assert alert.metric == "gpu_temperature_celsius"


def test_an_idle_gpu_lowers_its_clock_by_itself() -> None:
    run = run_with(
        busy_ratio=lambda t: 0.9 if t < 80 else 0.05,
        clock_ratio=lambda t: 0.95 if t < 80 else 0.2,
    )
    assert run.told == []


def test_a_clock_that_was_always_low_is_how_it_is_set() -> None:
    assert run_with(clock_ratio=lambda t: 0.5).told == []
