from __future__ import annotations

import pytest

from stepscope.stats.shares import share_half_width


def test_a_share_that_is_always_the_same_is_sure() -> None:
    assert share_half_width([3.0] * 10, [10.0] * 10) == pytest.approx(0.0)


def test_the_half_width_of_two_windows_by_hand() -> None:
    # Without the first: 0.4; without the second: 0.2. Mean 0.3, variance 1/2 · 2 · 0.01 = 0.01.
    assert share_half_width([2.0, 4.0], [10.0, 10.0]) == pytest.approx(12.7062 * 0.1)


def test_more_windows_make_a_share_surer() -> None:
    few = share_half_width([2.0, 4.0] * 2, [10.0] * 4)
    many = share_half_width([2.0, 4.0, 4.0] * 100, [10.0] * 300)
    assert few is not None
    assert many is not None
    assert many < few / 4


def test_one_window_tells_nothing() -> None:
    assert share_half_width([3.0], [10.0]) is None
    assert share_half_width([], []) is None
    assert share_half_width([3.0, 0.0], [10.0, 0.0]) is None
