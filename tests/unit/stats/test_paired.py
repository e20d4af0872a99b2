from __future__ import annotations

import random

import pytest

from stepscope.stats.paired import likeness, paired_ratio


def test_a_known_ratio_comes_back_though_rounds_differ() -> None:
    before = [10.0, 20.0, 40.0, 15.0]
    found = paired_ratio(before, [1.25 * one for one in before])

    assert found is not None
    assert found.middle == pytest.approx(1.25)
    assert found.low == pytest.approx(1.25)
    assert found.high == pytest.approx(1.25)


def test_one_round_has_no_interval() -> None:
    found = paired_ratio([10.0], [11.0])

    assert found is not None
    assert (found.low, found.high) == (None, None)


def test_nothing_to_compare_gives_nothing() -> None:
    assert paired_ratio([], []) is None


def test_nineteen_of_twenty_intervals_hold_the_truth() -> None:
    rng = random.Random(7)
    held = 0
    for _ in range(400):
        before = [rng.lognormvariate(0.0, 0.1) for _ in range(6)]
        after = [1.1 * one * rng.lognormvariate(0.0, 0.05) for one in before]
        found = paired_ratio(before, after)
        assert found is not None
        assert found.low is not None
        assert found.high is not None
        held += found.low <= 1.1 <= found.high
    assert 365 <= held <= 395  # 380 expected, three standard deviations


def test_a_wider_confidence_gives_a_wider_interval() -> None:
    before, after = [10.0, 11.0, 12.0], [11.0, 11.5, 13.5]
    usual, sure = paired_ratio(before, after), paired_ratio(before, after, confidence=0.99)

    assert usual is not None
    assert sure is not None
    assert usual.low is not None
    assert sure.low is not None
    assert sure.low < usual.low < usual.middle == sure.middle


def test_rounds_that_go_up_and_down_together_are_alike() -> None:
    assert likeness([1.0, 2.0, 4.0], [3.0, 6.0, 12.0]) == pytest.approx(1.0)
    assert likeness([1.0, 2.0, 4.0], [8.0, 4.0, 2.0]) == pytest.approx(-1.0)
    assert likeness([1.0, 2.0, 1.0, 2.0], [1.0, 1.0, 2.0, 2.0]) == pytest.approx(0.0)
