"""The mean of late, and its limit."""

from __future__ import annotations

import pytest

from stepscope.model.watching import Reading
from stepscope.monitor.gate import Gate
from stepscope.monitor.level import Level

SECOND_NS = 1_000_000_000


def told(*values: float) -> Level:
    """A level over ten seconds with limits at 0.8 and 0.6, told a value each second."""
    level = Level(10.0, Gate(enter=0.8, leave=0.6))
    for second, value in enumerate(values):
        level.update(Reading(second * SECOND_NS, "gc_ratio", value))
    return level


def test_nothing_is_known_before_the_first_reading() -> None:
    level = told()
    assert (level.mean, level.began_ns, level.is_beyond) == (None, None, False)


def test_it_takes_three_readings_to_be_beyond_a_limit() -> None:
    assert not told(0.9, 0.9).is_beyond
    level = told(0.9, 0.9, 0.9)
    assert level.is_beyond
    assert level.began_ns == 2 * SECOND_NS


def test_the_mean_decides_and_not_a_single_reading() -> None:
    level = told(0.1, 0.1, 1.0)
    assert level.mean == pytest.approx(0.4)
    assert not level.is_beyond


def test_it_is_over_when_the_mean_has_come_back_beyond_the_second_limit() -> None:
    assert told(0.9, 0.9, 0.9, 0.1).is_beyond  # 0.7
    assert not told(0.9, 0.9, 0.9, 0.1, 0.1).is_beyond  # 0.58


def test_what_is_older_than_the_window_does_not_count() -> None:
    assert told(*[0.9] * 10, *[0.1] * 10).mean == pytest.approx(0.1)
