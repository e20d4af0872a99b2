"""Durations, sizes and shares as people write them."""

from __future__ import annotations

import math
from typing import Any

import pytest

from stepscope.monitor.quantities import flag, part, quantity, seconds, share, text, times, whole


@pytest.mark.parametrize(
    ("written", "expected_s"),
    [("30s", 30.0), ("5m", 300.0), ("2h", 7200.0), ("250 ms", 0.25), (7, 7.0), (0, 0.0)],
)
def test_a_duration_has_a_unit_or_is_in_seconds(written: Any, expected_s: float) -> None:
    assert seconds(written) == pytest.approx(expected_s)


@pytest.mark.parametrize(
    ("written", "expected"),
    [("4GiB", 4 * 2**30), ("1.5 MB", 1.5e6), ("90%", 0.9), ("30s", 30.0), (-2.5, -2.5)],
)
def test_a_quantity_is_given_in_its_base_unit(written: Any, expected: float) -> None:
    assert quantity(written) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("read", "written"),
    [
        (seconds, "5 apples"),
        (seconds, "-3s"),
        (seconds, True),
        (seconds, math.nan),
        (seconds, math.inf),
        (seconds, None),
        (seconds, []),
        (seconds, "9" * 500),
        (seconds, 10**400),
        (share, "120%"),
        (share, "5s"),
        (part, 0),
        (quantity, "GiB"),
        (times, 1.0),
        (whole, 2.5),
        (whole, True),
        (whole, -1),
        (flag, 1),
        (flag, "yes"),
        (text, ""),
        (text, "x" * 1000),
    ],
)
def test_what_is_no_such_value_is_refused_with_what_is_allowed(read: Any, written: Any) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        read(written)
