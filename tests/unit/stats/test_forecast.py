from __future__ import annotations

import math
import random
from collections.abc import Callable

import pytest

from stepscope.stats.forecast import FEWEST, KEPT, LimitForecast, forecast

Memory = Callable[[random.Random, int], float]
LIMIT = 100.0


def told(memory: Memory, count: int, seed: int = 0) -> LimitForecast:
    rng, watched = random.Random(seed), LimitForecast()
    for second in range(count):
        watched.update(float(second), memory(rng, second))
    return watched


def ever_told(memory: Memory, count: int, seed: int = 0) -> bool:
    rng, watched = random.Random(seed), LimitForecast()
    for second in range(count):
        watched.update(float(second), memory(rng, second))
        if second % 7 == 0 and watched.get(LIMIT) is not None:
            return True
    return False


def even_leak(rng: random.Random, second: int) -> float:
    return 30.0 + 70.0 * second / 600 + rng.gauss(0.0, 0.5)


def leak_under_teeth(rng: random.Random, second: int) -> float:
    return 25.0 + 70.0 * second / 600 + 5.0 * (second % 20) / 20


def leak_in_pieces(rng: random.Random, second: int) -> float:
    return 30.0 + 2.0 * (second // 17)


def late_leak(rng: random.Random, second: int) -> float:
    return 30.0 + rng.gauss(0.0, 0.2) + max(0.0, 70.0 * (second - 300) / 300)


def leak_after_warm_up(rng: random.Random, second: int) -> float:
    return 20.0 + 15.0 * (1 - math.exp(-second / 10)) + 65.0 * second / 600


def leak_seen_at_any_moment_of_a_step(rng: random.Random, second: int) -> float:
    return 10.0 + 50.0 * second / 600 + rng.choice((0.0, 0.0, 15.0, 30.0, 38.0, 40.0))


@pytest.mark.parametrize(
    ("memory", "end_s", "now_s"),
    [
        (even_leak, 600, 300),
        (leak_under_teeth, 600, 300),
        (leak_in_pieces, 595, 300),
        (late_leak, 600, 450),
        (leak_after_warm_up, 600, 300),
        (leak_seen_at_any_moment_of_a_step, 600, 300),
    ],
)
def test_at_half_of_its_life_a_leak_is_told_when_it_ends(
    memory: Memory, end_s: int, now_s: int
) -> None:
    found = told(memory, now_s).get(LIMIT)
    assert found is not None
    assert found.seconds == pytest.approx(end_s - now_s, rel=0.15)
    assert found.low_s <= found.seconds <= found.high_s
    assert found.low_s <= 1.1 * (end_s - now_s)
    assert found.high_s >= 0.9 * (end_s - now_s)


def test_the_rate_is_per_second_and_since_when_is_told() -> None:
    found = told(late_leak, 450).get(LIMIT)
    assert found is not None
    assert found.rate == pytest.approx(70.0 / 300, rel=0.15)
    assert 200 <= found.since_s <= 400


def flat(rng: random.Random, second: int) -> float:
    return rng.gauss(80.0, 2.0)


def warm_up(rng: random.Random, second: int) -> float:
    return 30.0 + 50.0 * (1 - math.exp(-second / 100)) + rng.gauss(0.0, 0.3)


def cache_that_fills(rng: random.Random, second: int) -> float:
    return 40.0 + 20.0 * min(1.0, second / 200) + rng.gauss(0.0, 0.3)


def teeth(rng: random.Random, second: int) -> float:
    return 40.0 + 20.0 * (second % 90) / 90 + rng.gauss(0.0, 0.3)


def epochs(rng: random.Random, second: int) -> float:
    return 40.0 + 20.0 * math.sqrt(second % 150 / 150) + rng.gauss(0.0, 0.3)


def pieces_that_end(rng: random.Random, second: int) -> float:
    return 40.0 + 5.0 * sum(second > at for at in (20, 60, 90, 250)) + rng.gauss(0.0, 0.3)


def falling(rng: random.Random, second: int) -> float:
    return 90.0 - second / 20


@pytest.mark.parametrize(
    "memory", [flat, warm_up, cache_that_fills, teeth, epochs, pieces_that_end, falling]
)
def test_what_does_not_go_on_is_not_taken_for_a_leak(memory: Memory) -> None:
    assert not any(ever_told(memory, 800, seed) for seed in range(3))


def test_too_few_values_tell_nothing() -> None:
    assert told(even_leak, FEWEST - 1).get(LIMIT) is None


def test_a_limit_far_away_is_not_foretold() -> None:
    watched = told(even_leak, 300)
    assert watched.get(LIMIT) is not None
    assert watched.get(10 * LIMIT) is None


def test_what_is_past_the_limit_has_no_time_left() -> None:
    found = told(even_leak, 650).get(LIMIT)
    assert found is not None
    assert (found.seconds, found.low_s) == (0.0, 0.0)


def test_a_leak_that_was_mended_is_forgotten() -> None:
    def mended(rng: random.Random, second: int) -> float:
        return even_leak(rng, min(second, 300))

    assert told(mended, 300).get(LIMIT) is not None
    assert told(mended, 500).get(LIMIT) is None


def test_a_week_of_values_is_watched_in_bounded_memory() -> None:
    watched = told(lambda rng, second: 30.0 + 70.0 * second / 100_000, 50_000)
    found = watched.get(LIMIT)
    assert found is not None
    assert found.seconds == pytest.approx(50_000, rel=0.03)
    assert len(watched._thinned.points) < 3 * KEPT


def test_values_that_are_no_numbers_or_come_late_are_passed_by() -> None:
    watched = told(even_leak, 300)
    expected = watched.get(LIMIT)
    watched.update(301.0, math.nan)
    watched.update(10.0, 5000.0)
    assert watched.get(LIMIT) == expected


def test_a_level_is_forecast_along_its_line_with_an_interval() -> None:
    inside = 0
    for seed in range(100):
        rng = random.Random(seed)
        ys = [500.0 - 2.0 * x + rng.gauss(0.0, 10.0) for x in range(60)]
        found = forecast(list(range(60)), ys, at=90.0)
        assert found is not None
        inside += found.low <= 320.0 <= found.high
    assert 85 <= inside <= 100


def test_the_interval_of_a_level_widens_with_the_distance() -> None:
    rng = random.Random(1)
    ys = [rng.gauss(0.0, 1.0) for _ in range(30)]
    near, far = (forecast(list(range(30)), ys, at) for at in (30.0, 300.0))
    assert near is not None
    assert far is not None
    assert far.high - far.low > 3 * (near.high - near.low)


def test_two_points_forecast_nothing() -> None:
    assert forecast([0.0, 1.0], [1.0, 2.0], at=5.0) is None
    assert forecast([1.0, 1.0, 1.0], [1.0, 2.0, 3.0], at=5.0) is None
