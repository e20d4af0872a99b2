from __future__ import annotations

import math
import random
from collections.abc import Callable

import pytest

from stepscope.stats.anomaly import AGAIN, FEWEST, IN_A_ROW, AnomalyDetector

Values = Callable[[random.Random, int], float]


def told(values: list[float]) -> tuple[AnomalyDetector, list[float]]:
    detector = AnomalyDetector()
    return detector, [z for value in values if (z := detector.update(value)) is not None]


def normal(rng: random.Random, step: int) -> float:
    return rng.gauss(100.0, 1.0)


def heavy_tails(rng: random.Random, step: int) -> float:
    return 100.0 + rng.gauss(0, 1) / math.sqrt(rng.gammavariate(1.5, 2 / 3))


def skewed(rng: random.Random, step: int) -> float:
    return rng.expovariate(1.0)


def every_fiftieth(rng: random.Random, step: int) -> float:
    return rng.gauss(10.0, 0.1) + 5.0 * (step % 50 == 0)


def trend(rng: random.Random, step: int) -> float:
    return 0.05 * step + rng.gauss(0.0, 1.0)


def waves(rng: random.Random, step: int) -> float:
    return 10.0 * math.sin(step / 100) + rng.gauss(0.0, 1.0)


def constant(rng: random.Random, step: int) -> float:
    return 5.0


def counts(rng: random.Random, step: int) -> float:
    return float(rng.randint(0, 3))


@pytest.mark.parametrize(
    "values", [normal, heavy_tails, skewed, every_fiftieth, trend, waves, constant, counts]
)
def test_what_a_metric_does_all_the_time_is_not_odd(values: Values) -> None:
    rng = random.Random(1)
    _, odd = told([values(rng, step) for step in range(10_000)])
    assert len(odd) <= 5


@pytest.mark.parametrize("away", [30.0, -30.0])
def test_a_single_value_far_off_is_odd_and_told_how_far(away: float) -> None:
    rng = random.Random(2)
    detector, _ = told([rng.gauss(100.0, 1.0) for _ in range(300)])
    found = detector.update(100.0 + away)
    assert found == pytest.approx(away, rel=0.3)
    assert detector.update(100.0) is None


def test_a_metric_that_never_moves_and_does_once_is_odd() -> None:
    detector, odd = told([0.97] * 100)
    assert odd == []
    assert detector.update(0.5) is not None


def test_nothing_is_odd_before_there_is_something_usual() -> None:
    _, odd = told([1.0] * (FEWEST - 1) + [1000.0])
    assert odd == []


def test_a_new_level_is_told_a_few_times_and_is_usual_then() -> None:
    rng = random.Random(3)
    values = [rng.gauss(100.0, 1.0) + 50.0 * (step >= 300) for step in range(900)]
    _, odd = told(values)
    assert 1 <= len(odd) <= IN_A_ROW


def test_what_comes_rarely_but_again_and_again_is_known_after_a_few_times() -> None:
    rng = random.Random(4)
    values = [rng.gauss(10.0, 0.1) + 5.0 * (step % 400 == 399) for step in range(10_000)]
    _, odd = told(values)
    assert 1 <= len(odd) <= AGAIN


def test_something_worse_than_what_is_known_is_told() -> None:
    rng = random.Random(5)
    values = [rng.gauss(10.0, 0.1) + 5.0 * (step % 400 == 399) for step in range(4000)]
    detector, _ = told(values)
    assert detector.update(30.0) is not None


def test_what_is_no_number_is_odd_and_does_not_spoil_what_is_usual() -> None:
    detector, _ = told([1.0, 2.0] * 50)
    assert detector.update(math.nan) == math.inf
    assert detector.update(1.5) is None
