"""When something is full, and when the run is over."""

from __future__ import annotations

import math
import random

import pytest

from stepscope.monitor.trends import Outlook, end_estimate


def test_growth_of_the_last_hour_shows_after_days() -> None:
    outlook = Outlook()
    days_s = 5 * 86_400
    for second in range(0, days_s, 60):
        outlook.update(second, 100.0 + math.sin(second))
    assert outlook.get(limit=1000.0) is None
    for second in range(days_s, days_s + 7200, 10):
        outlook.update(second, 100.0 + (second - days_s) / 10)
    found = outlook.get(limit=1000.0)
    assert found is not None
    assert found.seconds == pytest.approx(1800.0, rel=0.15)


def test_a_sawtooth_with_teeth_of_hours_is_not_going_anywhere() -> None:
    outlook = Outlook()
    for second in range(0, 40 * 3600, 60):
        outlook.update(second, 100.0 + 500.0 * (second % 10_000) / 10_000)
        if second > 20_000 and second % 600 == 0:
            assert outlook.get(limit=1000.0) is None


def test_nothing_is_said_of_nothing() -> None:
    assert Outlook().get(limit=1.0) is None
    assert Outlook().watched_s == 0.0


def test_the_end_is_as_far_as_the_steps_that_are_left() -> None:
    found = end_estimate(1000, 3000, [0.5] * 20)
    assert found == (1000.0, 1000.0, 1000.0)


def test_the_interval_holds_the_truth_about_as_often_as_it_says() -> None:
    draws = random.Random(1)
    hits = 0
    for _ in range(400):
        past = [draws.gauss(1.0, 0.2) for _ in range(20)]  # of 50 steps each
        rest_s = sum(50 * draws.gauss(1.0, 0.2) for _ in range(40))
        found = end_estimate(1000, 3000, past)
        assert found is not None
        hits += found.low_s <= rest_s <= found.high_s
    assert 0.90 <= hits / 400 <= 0.99


@pytest.mark.parametrize(
    ("done", "total", "measured"), [(5, None, [1.0]), (5, 10, []), (11, 10, [1.0])]
)
def test_what_is_not_known_is_none(done: int, total: int | None, measured: list[float]) -> None:
    assert end_estimate(done, total, measured) is None


def test_one_stretch_says_nothing_about_how_sure_it_is() -> None:
    assert end_estimate(10, 20, [2.0]) == (20.0, 0.0, math.inf)
    assert end_estimate(20, 20, [2.0]) == (0.0, 0.0, 0.0)
