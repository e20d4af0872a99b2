"""Loaders that start workers anew in each epoch, for weeks."""

from __future__ import annotations

import pytest

from stepscope.analyze.overhead import OwnCost
from stepscope.model import names
from stepscope.model.process import ProcessInfo
from stepscope.model.summary import Summary
from stepscope.session import analysis
from stepscope.session.analysis import RunFold
from tests.unit.analyze.made import Event, batch, sample, training


def process(pid: int, began_s: int) -> ProcessInfo:
    began_ns = began_s * 1_000_000_000
    return ProcessInfo(pid, 41, 0, 1, "here", "program", (), "3.11", "native", began_ns, began_ns)


def told(at_ms: float, calls: int) -> list[Event]:
    return [
        sample(names.OWN_CALLS, at_ms, calls),
        sample(names.OWN_CALL_COST_NS, at_ms, 1000.0),
        sample(names.OWN_WRITER_CPU_NS, at_ms, 5e6),
    ]


def summary_of(workers: int) -> Summary:
    """A worker every two minutes; each recorded 7 spans."""
    fold = RunFold()
    fold.update(process(41, 0), [batch(training(20))])
    for number in range(workers):
        at_ms = 120_000.0 * (number + 1)
        fold.update(process(100 + number, 120 * (number + 1)), [batch(told(at_ms, 7))])
    assert len(fold.loops) <= 12
    return fold.summary({}, [], [])


def test_workers_that_came_and_went_are_added_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(analysis, "_PROCESSES", 10)
    summary = summary_of(500)
    assert summary.steps.count == 20
    assert summary.overhead["calls"] == 500 * 7
    assert summary.overhead["hooks_ms"] == pytest.approx(500 * 7 * 1e-3)
    assert summary.overhead["writer_cpu_ms"] == pytest.approx(500 * 5.0)


def test_processes_that_are_still_there_are_kept_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """GIVEN more workers at a time than are kept apart WHEN they go on telling their totals
    THEN none is counted twice."""
    monkeypatch.setattr(analysis, "_PROCESSES", 10)
    fold = RunFold()
    for at_s in range(0, 300, 10):
        for pid in range(100, 130):
            fold.update(process(pid, 0), [batch(told(at_s * 1000.0 + 1, at_s))])
    assert len(fold.loops) == 30
    assert fold._helpers == OwnCost()
