from __future__ import annotations

import math
import random

import pytest

from stepscope.stats.running import Running


def told(values: list[float], every_s: float = 1.0) -> Running:
    running = Running()
    for number, value in enumerate(values):
        running.update(number * every_s, value)
    return running


def test_of_nothing_nothing_is_known() -> None:
    running = Running()
    assert (running.count, running.mean, running.minimum, running.maximum) == (0, None, None, None)
    assert (running.last, running.p50, running.p99, running.trend) == (None, None, None, None)


def test_it_counts_and_keeps_what_was_seen() -> None:
    running = told([4.0, 1.0, 7.0])
    assert (running.count, running.mean, running.last) == (3, 4.0, 7.0)
    assert (running.minimum, running.maximum) == (1.0, 7.0)


def test_percentiles_are_right_to_one_percent() -> None:
    running = told([float(value) for value in range(1, 10_001)])
    assert running.p50 == pytest.approx(5_000, rel=0.011)
    assert running.p95 == pytest.approx(9_500, rel=0.011)
    assert running.p99 == pytest.approx(9_900, rel=0.011)


def test_what_is_not_finite_is_passed_by() -> None:
    running = told([1.0, math.nan, math.inf, 3.0])
    assert (running.count, running.mean, running.maximum) == (2, 2.0, 3.0)


@pytest.mark.parametrize(("slope", "direction"), [(0.02, "rising"), (-0.02, "falling")])
def test_a_trend_is_told_per_second_through_noise_and_wild_values(
    slope: float, direction: str
) -> None:
    rng = random.Random(1)
    values = [slope * step + rng.gauss(0.0, 1.0) + 500.0 * (step % 97 == 0) for step in range(2000)]
    found = told(values, every_s=2.0).trend
    assert found is not None
    assert found.direction == direction
    assert found.slope == pytest.approx(slope / 2.0, rel=0.1)
    assert found.change == pytest.approx(slope * 2000, rel=0.1)


def test_noise_alone_is_steady() -> None:
    found = []
    for seed in range(40):
        rng = random.Random(seed)
        line = told([rng.gauss(50.0, 5.0) for _ in range(500)]).trend
        assert line is not None
        found.append(line.direction)
    assert found.count("steady") >= 39


def test_noise_that_lasts_is_mostly_steady_too() -> None:
    steady = 0
    for seed in range(40):
        rng, value, values = random.Random(seed), 0.0, []
        for _ in range(500):
            value = 0.9 * value + rng.gauss(0.0, 1.0)
            values.append(value)
        line = told(values).trend
        steady += line is not None and line.direction == "steady"
    assert steady >= 36


def test_a_line_without_noise_rises_and_a_constant_is_steady() -> None:
    rising, constant = told([float(x) for x in range(50)]).trend, told([7.0] * 50).trend
    assert rising is not None
    assert constant is not None
    assert rising.direction == "rising"
    assert rising.slope == pytest.approx(1.0)
    assert (constant.direction, constant.slope) == ("steady", 0.0)


def test_few_values_have_no_trend() -> None:
    assert told([1.0, 2.0, 3.0]).trend is None
