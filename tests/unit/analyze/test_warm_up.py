from __future__ import annotations

import doctest

import pytest

from stepscope.analyze import warm_up
from stepscope.analyze.findings import findings
from stepscope.analyze.loop import Loop
from stepscope.analyze.resources import Resources
from stepscope.analyze.warm_up import steady, warm_up_length
from stepscope.model import names
from stepscope.model.phases import Phase
from tests.unit.analyze.made import (
    Event,
    backward,
    exhausted,
    forward,
    iter_,
    loop,
    mark,
    next_,
    optimizer,
)
from tests.unit.report.made_summary import summary_of

WORKERS = '{"workers": 1, "persistent_workers": false}'


def trained(first_forward: float = 500.0, steps: int = 20, fault: float = 30.0) -> Loop:
    """Steps of 60 ms and `fault` between them; the first forward pass takes longer."""
    events: list[Event] = []
    at = 0.0
    for number in range(steps):
        lasts = first_forward if number == 0 else 20.0
        events += [forward(at, at + lasts), backward(at + lasts, at + lasts + 30)]
        events += [optimizer(at + lasts + 30, at + lasts + 40)]
        at += lasts + 40 + fault
    return loop(events)


def passes(first: float, each: float) -> Loop:
    """Four passes of five batches. Starting workers takes `each`; the first batch `first` more."""
    events: list[Event] = []
    at = 0.0
    for iterator in range(1, 5):
        events += [iter_(at, at + each, iterator), mark(names.LOADER, at, iterator, WORKERS)]
        at += each
        for number in range(5):
            lasts = 10.0 + (first if iterator == 1 and number == 0 else 0.0)
            events += [next_(at, at + 1, iterator), forward(at + 1, at + 1 + lasts)]
            events += [backward(at + 1 + lasts, at + 11 + lasts)]
            events += [optimizer(at + 11 + lasts, at + 12 + lasts)]
            at += 12 + lasts
        events += [exhausted(at, at + 1, iterator)]
        at += 1
    return loop(events)


def test_a_first_step_that_takes_longer_than_all_others_is_left_out() -> None:
    after = steady(trained())
    assert (after.warm_up_steps, after.steps) == (1, 19)
    assert after.warm_up_ns == 540e6
    assert sum(time.wall_ns for time in after.phases.values()) == after.wall_ns


def test_shares_are_those_of_the_steps_after_the_warm_up() -> None:
    found = {one.kind: one.share for one in findings([trained()], Resources())}
    # 30 of 90 ms; of all steps, with 540 ms of warm-up, it would be a quarter.
    assert found["python-in-loop"] == pytest.approx(1 / 3, abs=0.001)


def test_a_steady_loop_has_no_warm_up() -> None:
    same = trained(first_forward=20.0)
    assert steady(same) is same
    after = steady(trained())
    assert steady(after) is after


def test_workers_that_start_anew_for_every_pass_are_no_warm_up() -> None:
    assert steady(passes(first=0.0, each=200.0)).warm_up_steps == 0
    both = steady(passes(first=100.0, each=200.0))
    assert (both.warm_up_steps, both.warm_up_ns) == (1, 121e6)
    assert both.phases[Phase.INPUT_WAIT].wall_ns == (4 * 200 + 20 * 1 + 3 * 1) * 1e6


def test_the_summary_shows_the_warm_up_and_phases_of_all_steps() -> None:
    summary = summary_of(trained())
    assert (summary.steps.count, summary.steps.warm_up) == (20, 1)
    assert summary.steps.warm_up_ms == pytest.approx(540.0)
    assert sum(part.ms for part in summary.breakdown) == pytest.approx(summary.wall_ms)


@pytest.mark.parametrize(
    ("times", "length"),
    [
        ([900.0, *[1.0] * 6], 0),  # too few to tell
        ([9.0, 8.0, *[1.0] * 30], 2),
        ([1.4, *[1.0] * 31], 0),  # not that much longer
        ([9.0, *[1.0] * 9, 9.0, *[1.0] * 9, 9.0, *[1.0] * 9], 0),  # it comes again
        ([9.0, *[1.0] * 15, 50.0, *[1.0] * 15], 1),  # one hiccup later is not the rule
        ([9.0] * 10 + [1.0] * 10, 5),  # a quarter of the run at most
    ],
)
def test_warm_up_is_what_is_longer_than_the_longest_of_a_usual_quarter(
    times: list[float], length: int
) -> None:
    assert warm_up_length(times) == length


def test_the_examples_are_true() -> None:
    assert doctest.testmod(warm_up).failed == 0
