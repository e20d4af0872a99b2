from __future__ import annotations

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepscope.stats.sketch import ERROR, MOST, Sketch


def filled(values: list[float]) -> Sketch:
    sketch = Sketch()
    for value in values:
        sketch.update(value)
    return sketch


def test_nothing_has_no_quantile() -> None:
    assert Sketch().quantile(0.5) is None


@given(
    st.lists(st.floats(-1e6, 1e6).filter(lambda v: v == 0 or abs(v) > 1e-6), min_size=1),
    st.floats(0, 1),
)
@settings(deadline=None)
def test_a_quantile_is_within_its_error_of_a_value_of_that_rank(
    values: list[float], share: float
) -> None:
    found = filled(values).quantile(share)
    exact = sorted(values)[int(share * (len(values) - 1))]
    assert found == pytest.approx(exact, rel=ERROR * 1.000001, abs=1e-300)


def test_percentiles_of_many_values_are_right_to_one_percent() -> None:
    rng = random.Random(1)
    values = [math.exp(rng.gauss(0.0, 1.0)) for _ in range(50_000)]
    sketch, ordered = filled(values), sorted(values)
    for share in (0.5, 0.95, 0.99):
        assert sketch.quantile(share) == pytest.approx(ordered[int(share * 49_999)], rel=ERROR)


def test_sizes_of_all_kinds_take_bounded_memory_and_high_percentiles_stay_right() -> None:
    values = [10.0 ** (step % 600 - 300) for step in range(60_000)]
    sketch = filled(values)
    assert len(sketch._above) <= MOST
    assert sketch.quantile(0.99) == pytest.approx(sorted(values)[int(0.99 * 59_999)], rel=ERROR)
