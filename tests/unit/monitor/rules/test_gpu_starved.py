"""A GPU that has little to do while training waits for its data."""

from __future__ import annotations

import pytest

from stepscope.monitor.rule_settings import GpuStarved
from tests.unit.monitor.streams import HEALTHY, Run, monitor_of


def run_with(busy: float, waiting: float) -> Run:
    gauges = {
        **HEALTHY,
        "gpu_busy_ratio 0": lambda t: busy,
        "input_wait_ratio": lambda t: waiting,
    }
    return Run(monitor_of(), step_s=0.5, gauges=gauges).train(120)


def test_an_idle_gpu_and_a_waiting_program_are_starvation() -> None:
    (alert,) = run_with(busy=0.3, waiting=0.6).firing
    assert (alert.rule, alert.finding.kind) == ("gpu_starved", "gpu-starved")
    assert alert.finding.share == pytest.approx(0.6)
    assert alert.severity > 0.8


def test_an_idle_gpu_alone_is_none() -> None:
    assert run_with(busy=0.3, waiting=0.05).told == []


def test_a_waiting_program_alone_is_none() -> None:
    assert run_with(busy=0.9, waiting=0.4).told == []


def test_it_is_over_when_the_gpu_works_again() -> None:
    gauges = {
        **HEALTHY,
        "gpu_busy_ratio 0": lambda t: 0.3 if t < 60 else 0.9,
        "input_wait_ratio": lambda t: 0.5 if t < 60 else 0.1,
    }
    run = Run(monitor_of(), step_s=0.5, gauges=gauges).train(300)
    assert [alert.is_firing for alert in run.told] == [True, False]


def test_it_has_to_hold_as_long_as_the_watch_says() -> None:
    assert GpuStarved().hold_s is None
    gauges = {
        **HEALTHY,
        "gpu_busy_ratio 0": lambda t: 0.1,
        "input_wait_ratio": lambda t: 0.9,
    }
    assert (
        Run(monitor_of({"watch": {"hold": "5m"}}), step_s=0.5, gauges=gauges).train(120).told == []
    )
