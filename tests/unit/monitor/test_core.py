"""Whole runs with known faults: exactly those are told, and nothing of a healthy one."""

from __future__ import annotations

from tests.unit.monitor.streams import Run, monitor_of

GIB = 2.0**30


def test_a_healthy_run_with_evaluation_saves_and_warm_up_raises_nothing() -> None:
    run = Run(
        monitor_of(),
        noise=0.05,
        evaluation_every=100,
        save_every=250,
        gauges={
            "memory_bytes": lambda t: (4 + 0.3 * (t % 60) / 60) * GIB,
            "memory_limit_bytes": lambda t: 16 * GIB,
            "memory_ratio": lambda t: (4 + 0.3 * (t % 60) / 60) / 16,
            "cpu_ratio": lambda t: 1.5,
        },
    )
    run.train(3000).end()
    assert run.told == []
    assert run.monitor.summary().steps == 3000


def test_a_stall_is_told_once_and_is_over_when_steps_go_on() -> None:
    run = Run(monitor_of(), evaluation_every=100)
    run.train(250).wait(90.0).train(200).end()
    assert run.names() == [("stall", "stall")]
    (stall,) = run.firing
    assert stall.step == 250
    (over,) = run.resolved
    assert over.id == stall.id
    assert over.ended_unix is not None
    assert 85.0 <= over.ended_unix - over.began_unix <= 95.0


def test_a_slow_down_is_told_with_the_phase_that_grew() -> None:
    run = Run(
        monitor_of(),
        evaluation_every=100,
        extra_s=lambda number, rank: {"forward": 0.015} if 400 <= number < 600 else {},
    )
    run.train(1000).end()
    assert run.names() == [("slowdown", "slowdown")]
    assert 395 <= (run.firing[0].step or 0) <= 405
    assert 1.10 <= run.firing[0].finding.measures["ratio"] <= 1.20
    assert any("forward" in line for line in run.firing[0].finding.evidence)
    assert [alert.id for alert in run.resolved] == [run.firing[0].id]
