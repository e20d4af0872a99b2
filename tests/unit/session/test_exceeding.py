"""Limits are exceeded above them, not at them, and no longer once a value is back."""

from __future__ import annotations

from stepscope.session.exceeding import Exceeding


def test_a_limit_itself_is_not_exceeded_and_what_is_back_below_it_is_over() -> None:
    exceeding = Exceeding({"held": 1000.0, "spent": 5.0})
    found = [
        exceeding.update(second, {"held": held, "spent": 5.0})
        for second, held in enumerate((900.0, 1000.0, 1001.0, 999.0, 2000.0))
    ]
    assert found == [{}, {}, {"held": 1001.0}, {}, {"held": 2000.0}]


def test_limits_of_nothing_are_exceeded_by_anything() -> None:
    exceeding = Exceeding({"held": 0})
    assert exceeding.update(1, {"held": 0.0}) == {}
    assert exceeding.update(2, {"held": 1.0}) == {"held": 1.0}


def test_a_smallest_excess_counts() -> None:
    exceeding = Exceeding({"spent": 5.0})
    assert exceeding.update(1, {"spent": 5.000001}) == {"spent": 5.000001}
