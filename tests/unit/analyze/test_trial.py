from __future__ import annotations

from array import array
from types import SimpleNamespace
from typing import Any

import pytest

from stepscope.analyze.trial import step_seconds, trial_steps


def loop(step_s: float, steps: int, batches: int = 0, passes: int = 0) -> Any:
    durations = array("q", [round(step_s * 1e9)] * steps)
    uses = (SimpleNamespace(batches=batches, iterations=passes),) if passes else ()
    return SimpleNamespace(
        durations_ns=durations, wall_ns=sum(durations), steps=steps, loaders=uses
    )


def test_first_steps_do_not_count() -> None:
    assert step_seconds([90_000_000_000, *[1_000_000_000] * 10]) == pytest.approx(1.0)
    assert step_seconds([10**10] * 10 + [10**9] * 190) == pytest.approx(1.0)
    assert step_seconds([10**9]) is None
    assert step_seconds([]) is None


def test_rare_dear_steps_count() -> None:
    """A save in every 20th step is part of what a step takes."""
    assert step_seconds([1_000] * 2 + ([10**9] * 19 + [21 * 10**9]) * 2) == pytest.approx(2.0)


@pytest.mark.parametrize(
    ("found", "ended", "expected"),
    [
        (loop(0.05, 100), True, 0),  # five seconds: the whole program
        (loop(0.05, 100), False, 120),  # six seconds of a longer one
        (loop(1.0, 60), True, 20),  # slow steps: no fewer than twenty
        (loop(0.05, 300, batches=300, passes=6), False, 150),  # whole passes of 50
        (loop(0.05, 300, batches=300, passes=2), False, 300),  # two passes of 150
        (loop(0.05, 900, batches=1800, passes=2), False, 120),  # passes that take too long
    ],
)
def test_a_trial_is_some_seconds_of_steps_and_whole_passes_where_they_are_short(
    found: Any, ended: bool, expected: int
) -> None:
    assert trial_steps(found, ended=ended) == expected
