from __future__ import annotations

import doctest
import math
import random

import pytest
from scipy import stats

from stepscope.stats import welch
from stepscope.stats.welch import welch_ratio


def test_it_is_welchs_test_of_scipy_on_logarithms() -> None:
    before, after = [10.0, 10.4, 9.7, 10.1], [11.0, 12.5, 10.9, 11.7, 11.1]
    theirs = stats.ttest_ind(
        [math.log(one) for one in after], [math.log(one) for one in before], equal_var=False
    )
    interval = theirs.confidence_interval(0.9)

    found = welch_ratio(before, after, confidence=0.9)

    assert found is not None
    assert found.p == pytest.approx(theirs.pvalue)
    assert found.low == pytest.approx(math.exp(interval.low))
    assert found.high == pytest.approx(math.exp(interval.high))
    assert found.runs == (4, 5)


def test_the_other_way_round_is_one_over_it() -> None:
    before, after = [10.0, 10.4, 9.7], [11.0, 12.5, 10.9]
    forth, back = welch_ratio(before, after), welch_ratio(after, before)

    assert forth is not None
    assert back is not None
    assert forth.middle == pytest.approx(1 / back.middle)
    assert forth.low == pytest.approx(1 / back.high)
    assert forth.p == pytest.approx(back.p)


def test_runs_that_are_all_alike_leave_no_doubt() -> None:
    slower = welch_ratio([10.0, 10.0], [11.0, 11.0])
    same = welch_ratio([10.0, 10.0], [10.0, 10.0])

    assert slower is not None
    assert same is not None
    assert (slower.low, slower.high, slower.p) == (slower.middle, slower.middle, 0.0)
    assert (same.middle, same.p) == (1.0, 1.0)


@pytest.mark.parametrize(
    ("before", "after"),
    [([], []), ([1.0], [2.0, 2.1]), ([1.0, 1.1], [2.0]), ([1.0, 0.0], [1.0, 1.0]),
     ([1.0, 1.0], [1.0, -1.0])],
)  # fmt: skip
def test_what_cannot_be_compared_gives_nothing(before: list[float], after: list[float]) -> None:
    assert welch_ratio(before, after) is None


def test_nineteen_of_twenty_intervals_hold_the_truth() -> None:
    rng = random.Random(11)
    held = 0
    for _ in range(600):
        before = [rng.lognormvariate(0.0, 0.02) for _ in range(5)]
        after = [1.05 * rng.lognormvariate(0.0, 0.06) for _ in range(5)]
        found = welch_ratio(before, after)
        assert found is not None
        held += found.low <= 1.05 <= found.high
    assert 548 <= held <= 592  # 570 expected, four standard deviations


def test_its_examples_are_true() -> None:
    assert doctest.testmod(welch).failed == 0
