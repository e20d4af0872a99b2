"""A loss that is no number any more, or runs away."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from stepscope.model.alert import Alert
from stepscope.model.watching import Reading
from tests.unit.monitor.streams import SECOND_NS, UNIX, monitor_of


def told(loss: Callable[[int], float], steps: int = 400, metric: str = "loss") -> list[Alert]:
    monitor = monitor_of({"watch": {"resolve": 2}})
    found = []
    for step in range(steps):
        now_ns = step * SECOND_NS
        monitor.reading(Reading(now_ns, metric, loss(step), step=step))
        found += monitor.tick(now_ns, UNIX + step)
    return found


def falling(step: int) -> float:
    return 2.0 / (1.0 + step / 50) + 0.02 * math.sin(3.3 * step)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_what_is_no_number_is_told_at_once_and_once(bad: float) -> None:
    (alert,) = told(lambda step: bad if step >= 100 else falling(step))
    assert (alert.finding.kind, alert.step, alert.value) == ("loss-not-finite", 100, None)
    assert alert.told_unix == UNIX + 100
    assert alert.finding.confidence == 1.0


def test_one_that_recovers_is_over() -> None:
    alerts = told(lambda step: math.nan if step == 100 else falling(step))
    assert [alert.is_firing for alert in alerts] == [True, False]


def test_it_is_worse_the_more_of_them_come() -> None:
    monitor = monitor_of()
    for step in range(30):
        monitor.reading(Reading(step * SECOND_NS, "loss", math.nan, step=step))
        monitor.tick(step * SECOND_NS, UNIX + step)
    assert [alert.severity for alert in monitor.open_alerts] == [1.0]


def test_a_loss_that_runs_away_is_told_with_where_it_began() -> None:
    (alert,) = told(lambda step: falling(step) + max(0.0, 0.1 * (step - 200)))
    assert alert.finding.kind == "loss-diverging"
    assert 200 <= (alert.step or 0) <= 225
    assert alert.severity >= 0.6


@pytest.mark.parametrize(
    "loss",
    [
        falling,
        lambda step: falling(step) + (3.0 if step == 150 else 0.0),
        lambda step: 1.0 + 0.3 * math.sin(step),
    ],
    ids=["falling", "spike", "noise"],
)
def test_a_loss_as_they_are_is_not_told(loss: Callable[[int], float]) -> None:
    assert told(loss, 300) == []


def test_a_loss_of_the_programs_own_is_told_when_it_is_no_number_but_may_rise() -> None:
    assert told(lambda step: 0.1 * step, metric="val_loss") == []
    alerts = told(lambda step: math.nan, steps=5, metric="val_loss")
    assert [alert.metric for alert in alerts] == ["val_loss"]
