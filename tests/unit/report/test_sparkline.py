from __future__ import annotations

from stepscope.report.glyphs import ASCII, UNICODE
from stepscope.report.sparkline import bars, fitted


def test_bars_stand_between_the_lowest_and_the_highest_value() -> None:
    assert bars([0.0, 0.5, 1.0], UNICODE, 0.0, 1.0) == "▁▅█"
    assert bars([0.0, 0.5, 1.0], ASCII, 0.0, 1.0) == "_=#"


def test_what_lies_beyond_is_drawn_at_the_edge() -> None:
    assert bars([-3.0, 9.0], UNICODE, 0.0, 1.0) == "▁█"


def test_what_is_not_known_is_blank() -> None:
    assert bars([1.0, None, 0.0], UNICODE, 0.0, 1.0) == "█ ▁"


def test_a_flat_line_looks_flat_below_zero_too() -> None:
    assert bars([-5.0, -5.0], UNICODE, -5.0, -5.0) == "▁▁"
    assert bars([0.0, 0.0], UNICODE, 0.0, 0.0) == "▁▁"


def test_many_points_become_means_and_few_are_stretched() -> None:
    assert fitted([1.0, 3.0, 5.0, 7.0], 2) == [2.0, 6.0]
    assert fitted([1.0, 2.0], 4) == [1.0, 1.0, 2.0, 2.0]
    assert fitted([1.0, 2.0, 3.0], 2) == [1.0, 2.5]
    assert fitted([None, None, 4.0, None], 2) == [None, 4.0]


def test_no_points_or_no_room_is_nothing() -> None:
    assert fitted([], 10) == []
    assert fitted([1.0], 0) == []
