from __future__ import annotations

import math
import random
import sys
from collections.abc import Callable, Sequence

import pytest

from stepscope.stats.slowdown import SlowdownDetector

Noise = Callable[[random.Random, int], float]


def series(count: int, noise: float = 0.02, seed: int = 0, base: float = 0.1) -> list[float]:
    rng = random.Random(seed)
    return [base * math.exp(rng.gauss(0.0, noise)) for _ in range(count)]


def told(values: Sequence[float], least: float = 0.05) -> SlowdownDetector:
    detector = SlowdownDetector(least)
    for value in values:
        detector.update(value)
    return detector


def alarms(values: Sequence[float]) -> list[int]:
    detector, was_slow, found = SlowdownDetector(), False, []
    for step, value in enumerate(values):
        detector.update(value)
        if detector.is_slow and not was_slow:
            found.append(step)
        was_slow = detector.is_slow
    return found


def slower(values: Sequence[float], since: int, by: float) -> list[float]:
    return [value * (1 + by * (step >= since)) for step, value in enumerate(values)]


def test_before_it_knows_what_is_usual_nothing_is_slow() -> None:
    detector = told(series(10))
    assert (detector.is_slow, detector.usual, detector.level) == (False, None, None)
    assert (detector.ratio, detector.confidence) == (1.0, 0.0)


@pytest.mark.parametrize("base", [0.002, 3.0])
def test_five_percent_more_is_found_within_twenty_steps(base: float) -> None:
    found = [
        any(300 <= at < 320 for at in alarms(slower(series(320, 0.02, seed, base), 300, 0.05)))
        for seed in range(20)
    ]
    assert sum(found) >= 19


def test_it_tells_by_how_much_since_when_and_how_surely() -> None:
    detector = told(slower(series(330), 300, 0.2))
    assert detector.is_slow
    assert detector.usual == pytest.approx(0.1, rel=0.02)
    assert detector.ratio == pytest.approx(1.2, rel=0.03)
    assert detector.level == pytest.approx(0.12, rel=0.04)
    assert abs(detector.began - 300) <= 3
    assert detector.confidence > 0.99


def test_confidence_falls_with_the_noise() -> None:
    sure = [told(slower(series(330, noise), 300, 0.06)).confidence for noise in (0.01, 0.1)]
    assert sure[0] > 0.99
    assert sure[1] < 0.95


def test_steps_without_a_change_are_no_slow_down() -> None:
    assert sum(len(alarms(series(1000, 0.03, seed))) for seed in range(20)) <= 1


def test_a_long_run_without_a_change_is_no_slow_down() -> None:
    assert alarms(series(30_000, 0.03)) == []


def heavy_tails(rng: random.Random, step: int) -> float:
    return 0.01 * rng.gauss(0, 1) / math.sqrt(rng.gammavariate(1.5, 2 / 3))


def warm_up(rng: random.Random, step: int) -> float:
    return rng.gauss(0, 0.01) + 2.0 * math.exp(-step / 20)


def single_outliers(rng: random.Random, step: int) -> float:
    return rng.gauss(0, 0.01) + 2.0 * (rng.random() < 0.02)


def bursts(rng: random.Random, step: int) -> float:
    return rng.gauss(0, 0.01) + 0.7 * (step % 150 < 5)


def growing_noise(rng: random.Random, step: int) -> float:
    return rng.gauss(0, 0.005 + 0.03 * step / 1500)


def every_tenth(rng: random.Random, step: int) -> float:
    return rng.gauss(0, 0.01) + 0.5 * (step % 10 == 0)


def every_other(rng: random.Random, step: int) -> float:
    return rng.gauss(0, 0.01) + 0.3 * (step % 2)


def two_sizes(rng: random.Random, step: int) -> float:
    return rng.gauss(0, 0.01) + 0.3 * (rng.random() < 0.5)


def gets_faster(rng: random.Random, step: int) -> float:
    return rng.gauss(0, 0.01) - 0.3 * (step > 700)


def faster_for_a_moment(rng: random.Random, step: int) -> float:
    return rng.gauss(0, 0.01) - 0.3 * (700 < step < 725)


@pytest.mark.parametrize(
    "noise",
    [
        heavy_tails,
        warm_up,
        single_outliers,
        bursts,
        growing_noise,
        every_tenth,
        every_other,
        two_sizes,
        gets_faster,
        faster_for_a_moment,
    ],
)
def test_what_is_no_slow_down_is_not_taken_for_one(noise: Noise) -> None:
    for seed in range(3):
        rng = random.Random(seed)
        assert alarms([0.1 * math.exp(noise(rng, step)) for step in range(1500)]) == []


@pytest.mark.parametrize("noise", [heavy_tails, every_tenth, every_other, warm_up])
def test_a_slow_down_is_found_among_them(noise: Noise) -> None:
    rng = random.Random(1)
    values = [0.1 * math.exp(noise(rng, step)) for step in range(540)]
    assert alarms(slower(values, 500, 0.1))
    assert alarms(values) == []


def test_it_is_over_when_the_level_comes_back() -> None:
    values = series(500)
    slow = [value * (1.1 if 200 <= step < 300 else 1.0) for step, value in enumerate(values)]
    assert told(slow[:300]).is_slow
    assert not told(slow[:340]).is_slow
    assert len(alarms(slow)) == 1


def test_a_level_just_above_is_not_called_slow_and_well_again_and_again() -> None:
    assert len(alarms(slower(series(3000, 0.03), 300, 0.05))) <= 2


def test_a_slow_down_that_stays_does_not_become_usual() -> None:
    detector = told(slower(series(20_000), 300, 0.1))
    assert detector.is_slow
    assert detector.ratio == pytest.approx(1.1, rel=0.02)
    assert abs(detector.began - 300) <= 5


def test_a_slow_down_that_creeps_in_is_found_too() -> None:
    creeping = [value * (1 + 0.2 * step / 4000) for step, value in enumerate(series(4000))]
    assert told(creeping).is_slow


def test_what_is_usual_follows_a_run_that_becomes_faster() -> None:
    values = slower(series(600), 300, -0.2)
    detector = told(values)
    assert detector.usual == pytest.approx(0.08, rel=0.02)
    assert told([*values, *series(30, base=0.09)]).is_slow


def test_what_is_no_duration_is_passed_by() -> None:
    values = series(400)
    strange = [math.nan, 0.0, -1.0, math.inf]
    mixed = [one for at, value in enumerate(values) for one in (value, *strange[: at % 2 * 4])]
    detector = told(mixed)
    assert not detector.is_slow
    assert detector.usual == pytest.approx(0.1, rel=0.02)


def test_equal_steps_can_be_compared_too() -> None:
    assert not told([0.1] * 200).is_slow
    detector = told([0.1] * 200 + [0.11] * 20)
    assert detector.is_slow
    assert detector.ratio == pytest.approx(1.1)


def test_how_much_is_slow_is_told_in_advance() -> None:
    values = slower(series(400), 300, 0.08)
    assert told(values, least=0.05).is_slow
    assert not told(values, least=0.25).is_slow


def test_its_memory_does_not_grow_with_the_run() -> None:
    assert held(told(series(20_000))) <= 1.1 * held(told(series(5_000)))


def held(thing: object, seen: set[int] | None = None) -> int:
    """Bytes of an object and of all that it refers to."""
    seen = set() if seen is None else seen
    if id(thing) in seen or isinstance(thing, type):
        return 0
    seen.add(id(thing))
    inner = list(getattr(thing, "__dict__", {}).values())
    if hasattr(thing, "__iter__") and not isinstance(thing, str | dict):
        inner += list(thing)
    return sys.getsizeof(thing) + sum(held(one, seen) for one in inner)
