from __future__ import annotations

import doctest
import random

import pytest

from stepscope.stats import changepoints
from stepscope.stats.changepoints import change_points


def noise(count: int, spread: float, seed: int) -> list[float]:
    rng = random.Random(seed)
    return [10 * rng.lognormvariate(0.0, spread) for _ in range(count)]


def places(values: list[float]) -> list[int]:
    return [change.place for change in change_points(values)]


def test_a_planted_step_is_found_exactly() -> None:
    values = noise(30, 0.01, seed=1)
    values[12:] = [1.12 * value for value in values[12:]]

    (change,) = change_points(values)

    assert change.place == 12
    assert change.ratio == pytest.approx(1.12, rel=0.01)


def test_up_and_down_again_are_two_changes() -> None:
    values = noise(40, 0.01, seed=2)
    values[15:25] = [1.2 * value for value in values[15:25]]

    assert places(values) == [15, 25]


def test_white_noise_shows_a_change_in_few_of_a_hundred_series() -> None:
    for count in (8, 20, 60):
        shown = sum(bool(places(noise(count, 0.05, seed))) for seed in range(100))
        assert shown <= 4  # 1 expected


@pytest.mark.parametrize("odd", [(0,), (10,), (10, 11), (19,), (4, 9, 16)])
def test_single_odd_runs_are_no_change(odd: tuple[int, ...]) -> None:
    values = noise(20, 0.01, seed=3)
    for place in odd:
        values[place] *= 1.5

    assert places(values) == []


def test_a_new_level_is_told_from_its_third_run_on() -> None:
    values = noise(20, 0.005, seed=4)

    assert places([*values, 12.0, 12.0]) == []
    assert places([*values, 12.0, 12.0, 12.01]) == [20]


def test_figures_without_any_noise_are_cut_where_they_change() -> None:
    assert places([5.0] * 6) == []
    assert places([5.0] * 6 + [6.0] * 4) == [6]


def test_too_few_or_no_positive_figures_tell_nothing() -> None:
    assert change_points([]) == []
    assert change_points([1.0, 1.0, 9.0, 9.0]) == []
    assert change_points([0.0] * 10 + [1.0] * 10) == []


def test_its_examples_are_true() -> None:
    assert doctest.testmod(changepoints).failed == 0
