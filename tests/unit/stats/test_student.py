from __future__ import annotations

import doctest

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from stepscope.stats import student
from stepscope.stats.student import student_p, student_t

DEGREES = (1, 1.3, 2, 2.71, 4, 7.9, 20, 333.3, 1e5)


@pytest.mark.parametrize("degrees", DEGREES)
@pytest.mark.parametrize("confidence", [0.5, 0.9, 0.95, 0.975, 0.99, 0.9999])
def test_quantiles_are_those_of_scipy(degrees: float, confidence: float) -> None:
    expected = stats.t.ppf(0.5 + confidence / 2, degrees)

    assert student_t(degrees, confidence) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("degrees", DEGREES)
@pytest.mark.parametrize("t", [1e-9, 0.01, 0.5, 1.0, 2.5, 12.0, 300.0])
def test_tails_are_those_of_scipy(degrees: float, t: float) -> None:
    assert student_p(t, degrees) == pytest.approx(2 * stats.t.sf(t, degrees), rel=1e-8, abs=1e-290)


@settings(deadline=None)
@given(st.floats(1.0, 1e4), st.floats(0.01, 0.9999))
def test_a_quantile_leaves_as_much_outside_as_it_should(degrees: float, confidence: float) -> None:
    assert student_p(student_t(degrees, confidence), degrees) == pytest.approx(1 - confidence)


def test_both_sides_count_alike() -> None:
    assert student_p(-2.0, 5) == student_p(2.0, 5)


def test_the_ends_of_the_line() -> None:
    assert student_p(0.0, 3) == 1.0
    assert student_p(float("inf"), 3) == 0.0
    assert student_p(1e200, 3) == 0.0


def test_its_examples_are_true() -> None:
    assert doctest.testmod(student).failed == 0
