"""Limits that the user set on any metric."""

from __future__ import annotations

from typing import Any

import pytest

from stepscope.model.alert import Alert
from stepscope.model.watching import Crossing, Reading
from stepscope.monitor.rule_settings import Threshold
from stepscope.monitor.rules.thresholds import ThresholdRule
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


def test_below_nothing_is_not_above_it() -> None:
    assert told([0.5, 2.0], metric="reward", below=0.0) == []
    alerts = told([0.5, -1.0, -2.0, 1.0, 1.0, 1.0], metric="reward", below=0.0)
    assert [alert.is_firing for alert in alerts] == [True, False]


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


def judged(values: list[float], back_share: float = 0.0, **limit: Any) -> Crossing:
    """Of a value a second."""
    rule = ThresholdRule(Threshold(metric="accuracy", **limit), back_share)
    for second, value in enumerate(values):
        rule.reading(Reading(second * SECOND_NS, "accuracy", value))
    return rule.crossing()


def test_how_often_how_far_and_how_long_a_limit_was_passed() -> None:
    found = judged([0.5, 0.8, 0.9, 0.8, 0.5, 0.85], above=0.8)
    assert found.times == 2
    assert found.peak == 0.9
    assert found.beyond_ns == 2 * SECOND_NS, "from the second reading to the fourth"
    assert found.watched_ns == 5 * SECOND_NS


def test_the_same_of_a_limit_from_below() -> None:
    found = judged([0.5, 0.2, 0.1, 0.3], below=0.2)
    assert found == Crossing(0.2, 1, 0.1, SECOND_NS, 3 * SECOND_NS)


def test_a_limit_that_was_not_reached() -> None:
    assert judged([0.1, 0.79], above=0.8) == Crossing(0.8, 0, 0.79, 0, SECOND_NS)
    assert judged([], above=0.8) == Crossing(0.8)


def test_a_value_that_is_not_far_enough_back_is_beyond_the_limit_still() -> None:
    values = [0.81, 0.79, 0.81, 0.7]
    found = judged(values, back_share=0.05, above=0.8)
    assert (found.times, found.beyond_ns) == (1, 2 * SECOND_NS)
    assert judged(values, above=0.8).times == 2


def test_of_several_series_the_one_that_went_farthest_was_judged() -> None:
    rule = ThresholdRule(Threshold(metric="gpu_memory_ratio", above=0.8), back_share=0.0)
    for second, (first, other) in enumerate([(0.9, 0.5), (0.9, 0.95), (0.5, 0.6)]):
        for label, value in (("0", first), ("1", other)):
            rule.reading(Reading(second * SECOND_NS, "gpu_memory_ratio", value, label))
    assert rule.crossing() == Crossing(0.8, 1, 0.95, 0, 2 * SECOND_NS)


def test_a_reading_that_comes_late_takes_no_time_twice() -> None:
    rule = ThresholdRule(Threshold(metric="accuracy", above=0.8))
    for second in (0, 3, 2, 4):
        rule.reading(Reading(second * SECOND_NS, "accuracy", 0.9))
    assert rule.crossing() == Crossing(0.8, 1, 0.9, 4 * SECOND_NS, 4 * SECOND_NS)
