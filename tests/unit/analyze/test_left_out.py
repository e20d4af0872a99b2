"""Loops of which stretches were left out (store/rotation.py)."""

from __future__ import annotations

from collections.abc import Sequence

from stepscope.analyze.fold import LoopFold
from stepscope.analyze.loop import Loop
from stepscope.model import names
from tests.unit.analyze.made import (
    MS,
    Event,
    backward,
    batch,
    forward,
    mark,
    next_,
    optimizer,
    phases,
    training,
)


def left_out(at: float, end: float, steps: int) -> list[Event]:
    lasted = {"duration_ns": round((end - at) * MS)}
    return [mark(names.OWN_LEFT_OUT, at, arg=steps, text="-") | lasted]


def loop_of(stretches: Sequence[list[Event]]) -> Loop:
    fold = LoopFold(began_ns=0)
    for stretch in stretches:
        fold.update(batch(stretch))
    found = fold.get()
    assert found is not None
    assert sum(time.wall_ns for time in found.phases.values()) == found.wall_ns
    return found


# Step 10 is cut after its forward, 40 steps are left out whole, and of step 50 the input.
BEFORE = [*training(10), next_(1000, 1030), forward(1040, 1060)]
GAP = left_out(1060, 5030, 40)
AFTER = [forward(5040, 5060), backward(5060, 5085), optimizer(5090, 5100), *training(5, at=5100)]


def test_what_was_left_out_is_unexplained_and_no_giant_step() -> None:
    found = loop_of([BEFORE, GAP, AFTER])
    assert list(found.durations_ns) == [100 * MS] * 15
    assert phases(found)["unexplained"] == 5030 - 1060
    assert (found.start_ns, found.end_ns) == (0, 5600 * MS)


def test_steps_that_were_left_out_or_cut_are_counted() -> None:
    assert loop_of([BEFORE, GAP, AFTER]).steps == 10 + 40 + 1 + 5


def test_a_stretch_between_two_gaps_counts_by_its_whole_steps() -> None:
    first = [BEFORE, GAP, AFTER, left_out(5600, 9000, 34), training(3, at=9000)]
    found = loop_of(first)
    # The first step of a stretch may be cut: how long it took does not count.
    assert list(found.durations_ns) == [100 * MS] * 17
    assert found.steps == 56 + 34 + 3


def test_windows_keep_the_pace_of_what_was_left_out() -> None:
    windows = loop_of([BEFORE, GAP, AFTER]).windows
    assert sum(windows.steps()) == 56


def test_a_gap_before_the_loop_says_nothing_about_it() -> None:
    found = loop_of([left_out(0, 50, 3), training(10, at=100)])
    assert found.steps == 10
    assert "unexplained" not in phases(found)
