"""Whether the series of the benchmark of detectors are what it says of them."""

from __future__ import annotations

import math
import random

import pytest

from detector_foresight import least_squares_s
from detector_memory import leaks, no_leaks
from detector_memory_hard import HARD_LEAKS, HARD_NO_LEAKS
from detector_rivals import RIVALS, MedianRatio, ThreeSigma, alarms
from detector_series import NOISE_MODELS, StepSeries, step_series
from detectors import judge, place, unavailable
from run_all import benchmarks


def normal(count: int, sigma: float) -> StepSeries:
    rng = random.Random(1)
    return StepSeries("normal", [0.1 * math.exp(rng.gauss(0.0, sigma)) for _ in range(count)])


def test_its_parts_are_no_benchmarks_of_their_own() -> None:
    found = {path.stem for path in benchmarks([])}
    assert "detectors" in found
    assert not {name for name in found if name.startswith("detector_")}


def test_there_are_enough_series_of_every_kind_and_others_with_another_seed() -> None:
    series = step_series(1)
    assert len(series) + len(leaks(1)) + len(no_leaks(1)) >= 200
    assert {one.kind for one in series} == set(NOISE_MODELS)
    assert series[0].values != step_series(2)[0].values


def test_noise_is_the_standard_deviation_of_independent_steps() -> None:
    assert normal(3000, 0.02).noise == pytest.approx(0.02, rel=0.2)


def test_noise_that_lasts_counts_for_more_and_single_odd_steps_for_nothing() -> None:
    calm = normal(3000, 0.02)
    odd = StepSeries("", [v * (5 if i % 50 == 0 else 1) for i, v in enumerate(calm.values)])
    lasting = StepSeries("", [v * (1.05 if i % 60 < 30 else 1) for i, v in enumerate(calm.values)])
    assert odd.noise == pytest.approx(calm.noise, rel=0.2)
    assert lasting.noise > 2 * calm.noise


def test_what_is_planted_begins_where_it_says() -> None:
    slowed = StepSeries("", [1.0, 1.0, 1.0]).slowed(1, 0.05)
    assert slowed.values == [1.0, 1.05, 1.05]


def test_every_leak_ends_where_it_says_and_nothing_else_does() -> None:
    for one in leaks(3) + leaks(3, HARD_LEAKS):
        assert one.ends_at is not None
        assert one.values[one.ends_at] >= one.limit > max(one.values[: one.ends_at])
        assert one.leaks_from < one.half_of_life < one.ends_at
    assert all(max(one.values) < one.limit for one in no_leaks(3) + no_leaks(3, HARD_NO_LEAKS))


def test_alarms_of_a_slow_machine_are_not_held_against_a_detector() -> None:
    calm = normal(400, 0.01)
    burst = [value * (2 if 200 <= step < 240 else 1) for step, value in enumerate(calm.values)]
    alone = judge("stepscope", StepSeries("", burst, witness=list(calm.values)), 300)
    together = judge("stepscope", StepSeries("", burst, witness=burst), 300)
    assert (alone.false, alone.machine) == (1, 0)
    assert (together.false, together.machine) == (0, 1)


def test_a_place_leaves_steps_before_and_behind_it() -> None:
    for count in (108, 1000):
        assert all(70 <= place(normal(count, 0.01), n) <= count - 20 for n in range(50))


@pytest.mark.parametrize("make", [ThreeSigma, MedianRatio])
def test_simple_rivals_find_what_is_large(make: type[ThreeSigma] | type[MedianRatio]) -> None:
    assert any(300 <= at < 320 for at in alarms(make, normal(400, 0.01).slowed(300, 0.3).values))


@pytest.mark.parametrize("name", [name for name in RIVALS if "river" in name or "ruptures" in name])
def test_rivals_of_libraries_can_be_told_steps(name: str) -> None:
    if unavailable(name):
        pytest.skip(unavailable(name))
    values = normal(500, 0.01).slowed(300, 3.0).values
    found = alarms(RIVALS[name], values)
    assert any(at >= 300 for at in found)


def test_a_line_through_all_tells_the_end_of_an_even_leak() -> None:
    times_s = [float(second) for second in range(100)]
    assert least_squares_s(times_s, [2.0 * t for t in times_s], 300.0) == pytest.approx(51.0)
    assert least_squares_s(times_s, [5.0] * 100, 300.0) is None
