"""Garbage collections that take much of the time, or take long."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.unit.monitor.streams import HEALTHY, Run, monitor_of


def run_with(**gauges: Callable[[float], float]) -> Run:
    return Run(monitor_of(), step_s=0.5, gauges={**HEALTHY, **gauges}).train(360)


def test_much_of_the_time_in_collections_is_told() -> None:
    run = run_with(gc_ratio=lambda t: 0.2 if 60 < t < 120 else 0.01)
    assert run.names() == [("gc", "gc")]
    firing, over = run.told
    assert firing.severity > 0.6
    assert not over.is_firing


def test_one_long_pause_is_told() -> None:
    run = run_with(gc_pause_seconds=lambda t: 3.0 if 60 <= t < 61 else 0.01)
    assert [alert.finding.title for alert in run.firing] == ["A garbage collection took 3 s"]
    assert run.firing[0].value == pytest.approx(3.0)
    assert len(run.resolved) == 1


def test_short_collections_are_not() -> None:
    assert run_with(gc_ratio=lambda t: 0.03, gc_pause_seconds=lambda t: 0.3).told == []
