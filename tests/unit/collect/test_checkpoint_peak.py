from __future__ import annotations

import sys

import pytest

from stepscope.collect.checkpoint_peak import PeakWatch, heap_marks


class FakeMarks:
    """(most since the last call, now), as a test puts them down."""

    def __init__(self, *marks: tuple[int, int]) -> None:
        self._marks = list(marks)
        self.is_lost = self.is_closed = False

    def mark(self) -> tuple[int, int]:
        return self._marks.pop(0)

    def close(self) -> None:
        self.is_closed = True


def test_the_peak_without_checkpoints_is_that_of_the_highest_window_with_what_it_did_not_keep() -> (
    None
):
    # Two blocks of 100: forward of both, backward of the second, then of the first, which has 60
    # of gradients beside it.
    watch = PeakWatch(FakeMarks((120, 20), (140, 40), (160, 140), (170, 40), (180, 120), (190, 20)))
    watch.window(0)
    watch.window(100)  # 240 without
    watch.recomputed(100)  # 240: 140 are live at its end
    watch.window(100)  # 270
    watch.recomputed(0)
    watch.window(0)  # 190 with, the highest
    assert watch.reduction_bytes == 270 - 190


def test_what_recomputing_itself_takes_counts_only_for_the_peak_with_checkpoints() -> None:
    watch = PeakWatch(FakeMarks((500, 100)))
    watch.recomputed(50)
    assert watch.reduction_bytes == 150 - 500, "the peak is higher with checkpoints"


def test_without_a_heap_nothing_is_claimed() -> None:
    watch = PeakWatch(None)
    watch.window(5)
    watch.recomputed(5)
    watch.stop()
    assert watch.reduction_bytes is None


def test_before_the_first_event_nothing_is_claimed() -> None:
    assert PeakWatch(FakeMarks()).reduction_bytes is None


def test_it_stops_measuring_after_so_many_events_and_keeps_what_it_saw() -> None:
    marks = FakeMarks(*[(10, 10)] * 5000)
    watch = PeakWatch(marks)
    for _ in range(4095):
        watch.window(3)
    assert not marks.is_closed
    watch.window(3)
    watch.window(3000)
    assert (marks.is_closed, watch.reduction_bytes) == (True, 3)


def test_what_was_seen_stays_when_somebody_else_takes_the_marks_over() -> None:
    marks = FakeMarks((10, 10))
    watch = PeakWatch(marks)
    watch.window(3)
    marks.is_lost = True
    watch.window(3000)
    assert watch.reduction_bytes == 3


def test_there_is_no_heap_where_torch_was_not_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    assert heap_marks() is None
