from __future__ import annotations

from stepscope.session.losses import Lost, count_lost
from stepscope.store.status import StatusPage


def page(dropped: int = 0, lost: int = 0, last_errno: int = 0) -> StatusPage:
    return StatusPage(1, 100, dropped, lost, last_errno, 0, "")


def test_nothing_lost_says_nothing() -> None:
    assert count_lost([], 0) == count_lost([page(), page()], 0) == Lost()
    assert Lost().lines() == []


def test_losses_of_all_processes_are_added_up() -> None:
    lost = count_lost([page(dropped=2, lost=3, last_errno=28), page(lost=4, last_errno=2)], 5)
    assert (lost.dropped_events, lost.lost_events) == (2, 12)
    assert lost.reason == "No such file or directory, No space left on device"
    told, dropped = lost.lines()
    assert told.startswith("12 events could not be written (No such file")
    assert dropped.startswith("2 events came faster")


def test_an_error_that_was_made_good_is_no_reason() -> None:
    assert count_lost([page(lost=0, last_errno=28)], 1).reason == ""
