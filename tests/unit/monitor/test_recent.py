"""The last readings, and what was usual before them."""

from __future__ import annotations

import pytest

from stepscope.monitor.recent import Recent, Usual

SECOND_NS = 1_000_000_000


def test_the_mean_is_of_the_window_alone() -> None:
    recent = Recent(window_s=5.0)
    for second, value in enumerate([100.0] * 10 + [1.0] * 5):
        recent.update(second * SECOND_NS, value)
    assert recent.mean == pytest.approx(1.0)
    assert recent.count == 5


def test_a_flood_of_readings_is_bounded() -> None:
    recent = Recent(window_s=1e9)
    for number in range(5000):
        recent.update(number, 1.0)
    assert recent.count <= 600


def test_what_is_usual_is_what_was_before_the_window_and_stands_still_when_frozen() -> None:
    usual = Usual(window_s=5.0, fewest=5)
    for second in range(20):
        usual.update(second * SECOND_NS, 1.0)
    for second in range(20, 40):
        usual.update(second * SECOND_NS, 9.0, frozen=True)
    assert usual.value == pytest.approx(1.0)
    assert usual.recent.mean == pytest.approx(9.0)


def test_too_few_readings_tell_nothing() -> None:
    usual = Usual(window_s=5.0)
    for second in range(10):
        usual.update(second * SECOND_NS, 1.0)
    assert usual.value is None
