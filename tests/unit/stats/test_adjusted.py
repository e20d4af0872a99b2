from __future__ import annotations

import doctest
import random

import numpy as np
import pytest
from scipy import stats

from stepscope.stats import adjusted
from stepscope.stats.adjusted import adjusted_ratio

Runs = list[tuple[float, float]]


def made(rng: random.Random, times: float = 1.0, follows: float = 0.8, slower: float = 1.0) -> Runs:
    """Runs on a machine whose speed differs by 5 %, and that differ by 1 % for other reasons."""
    speeds = [slower * rng.lognormvariate(0.0, 0.05) for _ in range(5)]
    return [(10 * times * rng.lognormvariate(0.0, 0.01) * s**follows, s) for s in speeds]


def test_it_is_least_squares_with_the_group_and_the_speed() -> None:
    rng = random.Random(1)
    before, after = made(rng), made(rng, 1.1)
    rows = [(1.0, group, np.log(x)) for group, runs in enumerate((before, after)) for _, x in runs]
    a, y = np.array(rows), np.log([figure for figure, _ in (*before, *after)])
    found, left = np.linalg.lstsq(a, y)[:2]
    error = np.sqrt(left[0] / 7 * np.linalg.inv(a.T @ a)[1, 1])
    half = stats.t.ppf(0.975, 7) * error

    ours = adjusted_ratio(before, after)

    assert ours is not None
    assert ours.middle == pytest.approx(np.exp(found[1]))
    assert ours.low == pytest.approx(np.exp(found[1] - half))
    assert ours.high == pytest.approx(np.exp(found[1] + half))


def test_a_slow_machine_is_not_taken_for_a_slow_program() -> None:
    rng = random.Random(2)

    found = adjusted_ratio(made(rng), made(rng, slower=1.2))

    assert found is not None
    assert found.likeness > 0.9
    assert found.low < 1.0 < found.high


def test_nineteen_of_twenty_intervals_hold_the_truth() -> None:
    rng = random.Random(3)
    held = 0
    for _ in range(400):
        found = adjusted_ratio(made(rng), made(rng, 1.05))
        assert found is not None
        held += found.low <= 1.05 <= found.high
    assert 362 <= held <= 397  # 380 expected, four standard deviations


def test_figures_that_do_not_follow_the_speed_are_not_alike_to_it() -> None:
    found = adjusted_ratio(
        [(10.0, 1.0), (11.0, 1.0), (10.0, 2.0), (11.0, 2.0)], [(10.0, 1.0), (10.0, 2.0)]
    )

    assert found is not None
    assert found.likeness == pytest.approx(0.0)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ([], [(1.0, 1.0)] * 5),
        ([(1.0, 1.0)], [(1.0, 1.0), (1.0, 1.1)]),
        ([(1.0, 1.0)] * 5, [(1.0, 1.0)] * 5),
        ([(1.0, 0.0)] * 5, [(1.0, 1.0)] * 5),
    ],
)
def test_what_cannot_be_adjusted_gives_nothing(before: Runs, after: Runs) -> None:
    assert adjusted_ratio(before, after) is None


def test_its_examples_are_true() -> None:
    assert doctest.testmod(adjusted).failed == 0
