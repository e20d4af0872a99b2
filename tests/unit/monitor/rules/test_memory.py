"""Memory that grows, is going to be full, or nearly is."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from stepscope.model.alert import Alert
from stepscope.model.watching import Reading, StepSeen
from stepscope.monitor.rule_settings import Memory
from stepscope.monitor.rules.memory import MemoryRule
from tests.unit.monitor.streams import GIB, SECOND_NS, UNIX, Run, monitor_of


def told(
    held_gib: Callable[[float], float], seconds: int, limit_gib: float = 16.0, every_s: int = 1
) -> list[Alert]:
    monitor = monitor_of()
    found = []
    for second in range(0, seconds, every_s):
        now_ns = second * SECOND_NS
        monitor.step(StepSeen(0, second + 3, now_ns, now_ns + every_s * SECOND_NS, {}))
        held = held_gib(float(second)) * GIB
        monitor.reading(Reading(now_ns, "memory_bytes", held))
        monitor.reading(Reading(now_ns, "memory_limit_bytes", limit_gib * GIB))
        monitor.reading(Reading(now_ns, "memory_ratio", held / GIB / limit_gib))
        found += monitor.tick(now_ns, UNIX + second)
    return found


def names(alerts: list[Alert]) -> list[tuple[str, str]]:
    return [(alert.finding.kind, str(alert.metric)) for alert in alerts if alert.is_firing]


@pytest.mark.parametrize(
    "held_gib",
    [
        lambda t: 8.0,
        lambda t: 8.0 + 0.5 * math.sin(t / 7),
        lambda t: 4.0 + 6.0 * (t % 120) / 120,  # given back every two minutes
        lambda t: 8.0 - 5.0 * math.exp(-t / 60),  # a cache that fills
        lambda t: 4.0 + 4.0 * (t > 300),  # one step up
        lambda t: max(2.0, 8.0 - t / 100),
    ],
    ids=["flat", "wave", "sawtooth", "cache", "jump", "falling"],
)
def test_what_does_not_grow_for_ever_is_not_told(held_gib: Callable[[float], float]) -> None:
    assert told(held_gib, 1500, every_s=3) == []


def test_a_leak_is_told_with_the_time_that_is_left() -> None:
    """16 GiB are reached at second 1200."""
    alerts = told(lambda t: 4.0 + t / 100, 900)
    ahead = [a for a in alerts if "seconds_left" in a.finding.measures]
    assert len(ahead) == 1
    left_s = 1200 - (ahead[0].told_unix - UNIX)
    assert ahead[0].finding.measures["seconds_left"] == pytest.approx(left_s, rel=0.1)
    assert ahead[0].finding.kind == "leak"
    assert ahead[0].severity > 0.8


def test_a_creeping_leak_far_from_the_limit_is_told_as_that() -> None:
    alerts = told(lambda t: 4.0 + t / 1000, 2400, limit_gib=500.0, every_s=2)
    assert names(alerts) == [("leak", "memory_bytes")]
    assert alerts[0].limit is None
    assert alerts[0].finding.measures["bytes_per_s"] == pytest.approx(GIB / 1000, rel=0.05)


def test_a_creeping_leak_is_worse_where_the_limit_would_come_sooner() -> None:
    near, far = (
        told(lambda t: 4.0 + t / 200, 400, limit_gib=limit_gib)[0] for limit_gib in (50.0, 5000.0)
    )
    assert "seconds_left" not in near.finding.measures
    assert 0.45 < near.severity < 0.6  # two and a half hours away, if it is a leak
    assert far.severity < 0.4


def test_a_leak_that_stops_is_over() -> None:
    alerts = told(lambda t: 4.0 + min(t, 600) / 200, 3000, limit_gib=100.0, every_s=2)
    assert [alert.is_firing for alert in alerts] == [True, False]


def test_a_leak_that_begins_after_a_day_is_found_within_the_hour() -> None:
    day = 86_400
    alerts = told(
        lambda t: 4.0 + 0.01 * math.sin(t) + max(0.0, t - day) / 600,
        day + 4 * 3600,
        limit_gib=64.0,
        every_s=30,
    )
    assert names(alerts)[:1] == [("leak", "memory_bytes")]
    assert alerts[0].told_unix - UNIX < day + 3600


def test_memory_that_is_nearly_full_is_told_by_the_kinds_thresholds() -> None:
    alerts = told(lambda t: 15.0 if 50 < t < 100 else 8.0, 200)
    assert names(alerts) == [("memory-pressure", "memory_ratio")]
    firing, over = alerts
    assert 0.4 <= firing.severity <= 0.6
    assert over.ended_unix == UNIX + 99


def test_confidence_in_memory_that_is_nearly_full_is_how_little_is_left() -> None:
    rule = MemoryRule(Memory(pressure=0.9))
    rule.reading(Reading(SECOND_NS, "memory_ratio", 0.9))
    (at_the_limit,) = rule.conditions(2 * SECOND_NS)
    rule.reading(Reading(2 * SECOND_NS, "memory_ratio", 0.95))
    (half_of_the_rest,) = rule.conditions(3 * SECOND_NS)
    assert at_the_limit.confidence == pytest.approx(0.5)
    assert half_of_the_rest.confidence == pytest.approx(0.75)


def test_the_growth_before_the_first_steps_is_no_leak() -> None:
    run = Run(
        monitor_of(),
        step_s=1.0,
        gauges={
            "memory_bytes": lambda t: min(10.0, 1.0 + t / 20) * GIB,
            "memory_limit_bytes": lambda t: 16 * GIB,
        },
    )
    run.wait(178.0).train(600)
    assert run.told == []


def test_a_program_without_steps_is_told_of_when_its_memory_is_about_to_be_full() -> None:
    monitor = monitor_of()
    found = []
    for second in range(115):
        now_ns, held = second * SECOND_NS, (4.0 + second / 10) * GIB  # full after 120 s
        monitor.reading(Reading(now_ns, "memory_bytes", held))
        monitor.reading(Reading(now_ns, "memory_limit_bytes", 16 * GIB))
        found += monitor.tick(now_ns, UNIX + second)
    (alert,) = found
    assert alert.finding.measures["seconds_left"] <= 60.0


def test_a_gpus_limit_comes_from_its_share() -> None:
    monitor = monitor_of()
    found = []
    for second in range(900):
        now_ns, held = second * SECOND_NS, (4.0 + second / 100) * GIB
        monitor.step(StepSeen(0, second + 3, now_ns, now_ns + SECOND_NS, {}))
        monitor.reading(Reading(now_ns, "gpu_memory_bytes", held, "1"))
        monitor.reading(Reading(now_ns, "gpu_memory_ratio", held / GIB / 16, "1"))
        found += monitor.tick(now_ns, UNIX + second)
    ahead = [a for a in found if "seconds_left" in a.finding.measures]
    assert [a.finding.title.startswith("Memory of GPU 1 grows") for a in ahead] == [True]
    assert ahead[0].limit == pytest.approx(16 * GIB)
