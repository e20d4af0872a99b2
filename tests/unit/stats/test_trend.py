from __future__ import annotations

import random
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepscope.stats.trend import POINTS, thin, trend


def test_a_line_is_found_exactly() -> None:
    found = trend([0.0, 1.0, 5.0, 7.0], [3.0, 5.0, 13.0, 17.0])
    assert found == (2.0, 3.0, 0.0)


def test_a_quarter_of_wild_points_does_not_bend_it() -> None:
    random.seed(1)
    ys = [3.0 * x if x % 4 else random.uniform(-1e6, 1e6) for x in range(100)]
    found = trend(range(100), ys)
    assert found is not None
    assert found.slope == pytest.approx(3.0, abs=0.1)


def test_the_spread_of_normal_noise_is_its_standard_deviation() -> None:
    random.seed(2)
    found = trend(range(180), [x + random.gauss(0, 5) for x in range(180)])
    assert found is not None
    assert found.spread == pytest.approx(5.0, rel=0.25)


def test_points_at_one_place_have_no_trend() -> None:
    assert trend([], []) is None
    assert trend([1.0], [2.0]) is None
    assert trend([1.0, 1.0], [2.0, 3.0]) is None


def test_many_points_cost_no_more_than_a_few() -> None:
    xs = [float(x) for x in range(200_000)]
    began = time.perf_counter()
    found = trend(xs, [2.0 * x for x in xs])
    took_s = time.perf_counter() - began
    assert found is not None
    assert found.slope == pytest.approx(2.0)
    assert took_s < 2.0  # all pairs would be 20 thousand millions
    assert len(thin(xs, xs)[0]) == POINTS


@settings(deadline=None)
@given(
    st.floats(-1e6, 1e6),
    st.floats(-1e9, 1e9),
    st.lists(st.integers(0, 10**6), min_size=2, max_size=300, unique=True),
)
def test_any_line_is_found(slope: float, intercept: float, xs: list[int]) -> None:
    xs.sort()
    found = trend(xs, [slope * x + intercept for x in xs])
    assert found is not None
    scale = max(1.0, abs(slope) * 1e6, abs(intercept))
    assert abs(found.slope - slope) <= 1e-9 * scale
