from __future__ import annotations

import math
import random
from collections.abc import Callable

import pytest

from stepscope.stats.divergence import WINDOW, DivergenceDetector

Loss = Callable[[random.Random, int], float]


def good(rng: random.Random, step: int) -> float:
    return 0.5 + 4.0 * math.exp(-step / 300) + rng.gauss(0.0, 0.05)


def told(loss: Loss, count: int, seed: int = 0) -> DivergenceDetector:
    rng, detector = random.Random(seed), DivergenceDetector()
    for step in range(count):
        detector.update(loss(rng, step))
    return detector


def raised_at(loss: Loss, count: int, seed: int = 0) -> int | None:
    rng, detector = random.Random(seed), DivergenceDetector()
    for step in range(count):
        detector.update(loss(rng, step))
        if detector.is_diverging:
            return step
    return None


def very_noisy(rng: random.Random, step: int) -> float:
    return good(rng, step) + rng.gauss(0.0, 0.6)


def spiky(rng: random.Random, step: int) -> float:
    return good(rng, step) * (6.0 if rng.random() < 0.02 else 1.0)


def spike_that_recovers(rng: random.Random, step: int) -> float:
    return good(rng, step) + (2.0 * math.exp(-(step - 1000) / 30) if step >= 1000 else 0.0)


def harder_lessons(rng: random.Random, step: int) -> float:
    return 0.5 + 3.0 * math.exp(-(step % 500) / 100) + rng.gauss(0.0, 0.05)


def no_progress(rng: random.Random, step: int) -> float:
    return rng.gauss(2.3, 0.02)


def around_zero(rng: random.Random, step: int) -> float:
    return rng.gauss(0.0, 1.0)


def below_zero(rng: random.Random, step: int) -> float:
    return -10.0 + 10.0 * math.exp(-step / 200) + rng.gauss(0.0, 0.2)


def tiny_batches(rng: random.Random, step: int) -> float:
    return good(rng, step) * rng.expovariate(1.0)


@pytest.mark.parametrize(
    "loss",
    [
        good,
        very_noisy,
        spiky,
        spike_that_recovers,
        harder_lessons,
        no_progress,
        around_zero,
        below_zero,
        tiny_batches,
    ],
)
def test_a_loss_that_is_not_lost_is_not_taken_for_it(loss: Loss) -> None:
    assert [raised_at(loss, 2000, seed) for seed in range(2)] == [None, None]


def explodes(rng: random.Random, step: int) -> float:
    return good(rng, step) + (math.exp((step - 1000) / 50) - 1.0 if step >= 1000 else 0.0)


def jumps_and_stays(rng: random.Random, step: int) -> float:
    return good(rng, step) if step < 1000 else rng.gauss(4.0, 0.05)


def creeps_up(rng: random.Random, step: int) -> float:
    return good(rng, step) + max(0.0, 0.01 * (step - 1000))


@pytest.mark.parametrize(
    ("loss", "within"), [(explodes, 150), (jumps_and_stays, 80), (creeps_up, 350)]
)
def test_a_loss_that_runs_away_is_found(loss: Loss, within: int) -> None:
    raised = raised_at(loss, 1000 + within)
    assert raised is not None
    assert raised >= 1000
    detector = told(loss, raised + 1)
    assert 1000 <= detector.began < raised
    assert detector.is_finite
    assert detector.best == pytest.approx(0.65, abs=0.1)
    assert (detector.level or 0.0) > 2.0
    assert 0.5 < detector.confidence < 1.0


def test_a_loss_far_beyond_everything_is_not_waited_for() -> None:
    raised = raised_at(lambda rng, step: good(rng, step) if step < 500 else 1000.0, 600)
    assert raised is not None
    assert raised < 520


def test_a_value_that_is_no_number_is_told_at_once() -> None:
    for strange in (math.nan, math.inf, -math.inf):
        detector = told(good, 5)
        detector.update(strange)
        assert (detector.is_diverging, detector.is_finite) == (True, False)
        assert (detector.began, detector.confidence) == (5, 1.0)


def test_a_single_value_that_is_no_number_is_over_after_a_while() -> None:
    detector = told(good, 300)
    detector.update(math.nan)
    for _ in range(WINDOW - 1):
        detector.update(2.0)
    assert detector.is_diverging
    detector.update(2.0)
    assert not detector.is_diverging


def test_it_is_over_when_the_loss_has_come_back() -> None:
    def recovers(rng: random.Random, step: int) -> float:
        return 4.0 if 1000 <= step < 1200 else good(rng, step)

    assert told(recovers, 1150).is_diverging
    assert not told(recovers, 1250).is_diverging
