"""A GPU that is busy and runs slower than it could."""

from __future__ import annotations

from collections.abc import Callable

from tests.unit.monitor.streams import HEALTHY, Run, monitor_of


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
    assert firing.finding.confidence == 0.95
    assert firing.severity > 0.5
    assert not over.is_firing


def test_a_clock_that_falls_by_itself_is_less_sure() -> None:
    (alert,) = run_with(clock_ratio=lambda t: 0.7 if t > 80 else 0.95).firing
    assert alert.finding.confidence == 0.7


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
