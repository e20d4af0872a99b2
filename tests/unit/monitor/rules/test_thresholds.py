"""Limits that the user set on any metric."""

from __future__ import annotations

from typing import Any

import pytest

from stepscope.model.alert import Alert
from stepscope.model.watching import Reading
from tests.unit.monitor.streams import SECOND_NS, UNIX, monitor_of


def told(values: list[float], **threshold: Any) -> list[Alert]:
    """Of a value a second, from second 0 on."""
    metric = threshold.setdefault("metric", "host_memory_ratio")
    monitor = monitor_of({"watch": {"resolve": 2}, "threshold": [threshold]})
    found = []
    for second, value in enumerate(values):
        monitor.reading(Reading(second * SECOND_NS, metric, value, step=second))
        found += monitor.tick(second * SECOND_NS, UNIX + second)
    return found


def test_a_value_beyond_its_limit_for_long_enough_is_told() -> None:
    alerts = told([0.5] * 5 + [0.9] * 10 + [0.5] * 10, above="80%", **{"for": "5s"})
    assert [(alert.is_firing, alert.told_unix - UNIX) for alert in alerts] == [
        (True, 10),
        (False, 16),
    ]
    firing, over = alerts
    assert (firing.rule, firing.finding.kind, firing.metric) == (
        "threshold",
        "threshold",
        "host_memory_ratio",
    )
    assert (firing.value, firing.limit) == (0.9, 0.8)
    assert firing.began_unix == UNIX + 5
    assert over.ended_unix == UNIX + 14


def test_shorter_than_asked_for_is_not_told() -> None:
    assert told([0.5, 0.9, 0.9, 0.9, 0.5] * 10, above=0.8, **{"for": 4}) == []


def test_a_limit_from_below_and_of_a_metric_of_the_programs_own() -> None:
    alerts = told([3.0, 1.0, 1.0], metric="accuracy", below=2.0, name="worse")
    assert [alert.message for alert in alerts] == ["worse: accuracy is 1, below 2"]


def test_what_moves_about_the_limit_is_one_alert() -> None:
    alerts = told([0.81, 0.79, 0.81, 0.785] * 10, above=0.8)
    assert [alert.is_firing for alert in alerts] == [True]


def test_severity_is_the_users_or_from_how_far_it_went() -> None:
    assert told([0.99], above=0.8, severity=0.3)[0].severity == 0.3
    near, far = told([0.82], above=0.8)[0], told([1.0], above=0.8)[0]
    assert 0.5 <= near.severity < 0.6
    assert far.severity == pytest.approx(0.9)


def test_each_series_is_judged_by_itself_and_those_that_begin_together_are_one() -> None:
    monitor = monitor_of({"threshold": [{"metric": "gpu_temperature_celsius", "above": 80}]})
    for label, value in (("0", 85.0), ("1", 70.0), ("2", 95.0)):
        monitor.reading(Reading(0, "gpu_temperature_celsius", value, label))
    (alert,) = monitor.tick(SECOND_NS, UNIX)
    assert alert.finding.title == "gpu_temperature_celsius of gpu 2 is 95 °C, above 80 °C"


def test_one_series_can_be_chosen() -> None:
    limit = {"metric": "gpu_busy_ratio", "below": 0.1, "label": "1"}
    monitor = monitor_of({"threshold": [limit]})
    monitor.reading(Reading(0, "gpu_busy_ratio", 0.0, "0"))
    assert monitor.tick(0, UNIX) == []
    monitor.reading(Reading(0, "gpu_busy_ratio", 0.0, "1"))
    assert len(monitor.tick(0, UNIX)) == 1
