"""How the short steps of the overhead benchmark are judged."""

from __future__ import annotations

import pytest

from short_steps import Round, figures_of, targets_of


def test_the_printed_cost_is_compared_with_the_measured_one() -> None:
    # GIVEN steps that take 4 % more in the middle, and 2 % printed
    figures = figures_of([Round([1.03, 1.04, 1.2], [1.02], 0.02, 1e-3)])

    # THEN the printed cost is too small by a factor of 2
    assert figures["measured_share"] == pytest.approx(0.04)
    assert figures["printed_factor"] == pytest.approx(2.0)
    assert [target.ok for target in targets_of({"1ms": figures})] == [False, False]


def test_costs_below_the_resolution_are_the_same() -> None:
    # GIVEN a step that was a little faster with stepscope, and 0.1 % printed
    figures = figures_of([Round([0.999, 1.0], [1.0], 0.001, 1e-3)])

    # THEN
    assert figures["printed_factor"] == pytest.approx(1.0)
    assert all(target.ok for target in targets_of({"1ms": figures}))


def test_steps_of_a_fifth_of_a_millisecond_may_take_three_percent_more() -> None:
    figures = figures_of([Round([1.025], [1.02], 0.025, 2e-4)])

    assert [target.ok for target in targets_of({"0.2ms": figures})] == [True, True]
    assert not targets_of({"5ms": figures})[0].ok
