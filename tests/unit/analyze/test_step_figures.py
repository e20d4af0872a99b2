"""Steps become readings: a second of the loop, or a step that is longer, each time."""

from __future__ import annotations

import pytest

from stepscope.analyze.step_figures import StepFigures
from stepscope.model.watching import Reading, StepSeen

MS = 1_000_000


def step(number: int, start: float, end: float, special: bool = False, **phases: float) -> StepSeen:
    named = {name.replace("_", " "): round(ms * MS) for name, ms in phases.items()}
    return StepSeen(0, number, round(start * MS), round(end * MS), named, special)


def figures(readings: list[Reading]) -> dict[str, float]:
    return {f"{one.metric}{one.label and ':' + one.label}": one.value for one in readings}


def test_a_second_of_steps_is_summed_up() -> None:
    made = StepFigures(rank=0)
    told = [
        made.update(step(n, 250 * (n - 1), 250 * n, input_wait=50, forward=200))
        for n in range(1, 5)
    ]
    assert told[:3] == [[], [], []]
    found = figures(told[3])
    assert found["steps_total"] == 4
    assert found["steps_per_second"] == 4.0
    assert found["step_seconds"] == 0.25
    assert found["input_wait_ratio"] == pytest.approx(0.2)
    assert found["phase_ratio:forward"] == pytest.approx(0.8)
    assert found["gc_ratio"] == 0.0


def test_evaluation_counts_for_the_rate_and_not_for_the_time_of_a_step() -> None:
    made = StepFigures(rank=0)
    made.update(step(1, 0, 500, forward=500))
    found = figures(made.update(step(2, 500, 4000, special=True, evaluation=3500)))
    assert found["step_seconds"] == 0.5
    assert found["steps_per_second"] == 0.5


def test_a_phase_that_is_over_is_told_to_take_no_time() -> None:
    made = StepFigures(rank=0)
    made.update(step(1, 0, 1000, gc=400, forward=600))
    found = figures(made.update(step(2, 1000, 2000, forward=1000)))
    assert found["phase_ratio:gc"] == 0.0
    assert found["gc_ratio"] == 0.0


def test_the_last_steps_count_though_they_fill_no_window() -> None:
    figures = StepFigures(2)
    assert figures.rest() == []
    for number in range(1, 8):
        start_ns = number * 10_000_000
        figures.update(StepSeen(2, number, start_ns, start_ns + 10_000_000, {}))
    (told,) = figures.rest()
    assert (told.metric, told.value, told.rank, told.step) == ("steps_total", 7.0, 2, 7)
