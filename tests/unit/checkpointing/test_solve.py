"""The best choice, against all choices tried one by one."""

from __future__ import annotations

import random
from itertools import combinations

import pytest

from stepscope.checkpointing.candidates import Candidate, Rerun
from stepscope.checkpointing.solve import Choice, Problem
from stepscope.model.checkpoint_plan import CHEAP, Segment

MB = 1_000_000


def chain(
    kept: list[int], ms: list[float], cheaply: bool = False
) -> tuple[list[int], list[int], list[Candidate]]:
    """Blocks in a row: forward adds what each keeps, backward takes it away again, and needs half
    of it more while it works."""
    peaks: list[int] = []
    lives: list[int] = []
    live = 10 * MB
    ends: list[int] = []

    def mark(peak: int) -> int:
        peaks.append(peak)
        lives.append(live)
        return len(peaks) - 1

    for one in kept:
        mark(live)
        live += one
        ends.append(mark(live))
    begins = [0] * len(kept)
    for at in reversed(range(len(kept))):
        begins[at] = mark(live)
        peak = live + kept[at] // 2
        live -= kept[at]
        mark(peak)
    found = []
    for at, one in enumerate(kept):
        absent, calls = (range(ends[at] + 1, begins[at] + 1),), (range(at, at + 1),)
        rerun = (Rerun(begins[at], one // 10),)
        found.append(Candidate(Segment(f"b.{at}"), one, ms[at], absent, rerun, calls))
        if cheaply:
            cheap = Segment(f"b.{at}", CHEAP)
            found.append(Candidate(cheap, one // 3, ms[at] / 5, absent, rerun, calls))
    return peaks, lives, found


def every_choice(problem: Problem, found: list[Candidate]) -> list[Choice]:
    made = []
    for count in range(len(found) + 1):
        for chosen in combinations(range(len(found)), count):
            covered = [found[at].calls for at in chosen]
            if len(set(covered)) == len(covered):
                made.append(problem.evaluate(chosen))
    return made


@pytest.mark.parametrize("seed", range(6))
def test_no_other_choice_that_fits_recomputes_less(seed: int) -> None:
    rng = random.Random(seed)
    kept = [rng.randint(1, 20) * MB for _ in range(5)]
    peaks, lives, found = chain(kept, [rng.uniform(1, 20) for _ in kept], cheaply=True)
    problem = Problem(peaks, lives, found)
    choices = every_choice(problem, found)
    top, bottom = max(peaks), min(one.peak_bytes for one in choices)
    for share in (0.2, 0.5, 0.8):
        budget = int(bottom + share * (top - bottom))
        best = min(one.recompute_ms for one in choices if one.peak_bytes <= budget)

        found_choice = problem.least_time(budget)

        assert found_choice is not None
        assert found_choice.peak_bytes <= budget
        assert found_choice.recompute_ms == pytest.approx(best, rel=0.003)


@pytest.mark.parametrize("seed", range(6))
def test_the_smallest_peak_is_the_smallest_of_all_choices(seed: int) -> None:
    rng = random.Random(100 + seed)
    kept = [rng.randint(1, 20) * MB for _ in range(6)]
    peaks, lives, found = chain(kept, [rng.uniform(1, 20) for _ in kept])
    problem = Problem(peaks, lives, found)

    smallest = problem.least_peak()

    assert smallest.peak_bytes == min(one.peak_bytes for one in every_choice(problem, found))


def test_what_fits_already_needs_no_recomputing() -> None:
    peaks, lives, found = chain([4 * MB, 4 * MB], [1.0, 1.0])

    assert Problem(peaks, lives, found).least_time(max(peaks)) == Choice((), max(peaks), 0.0)


def test_below_the_smallest_peak_there_is_no_choice() -> None:
    peaks, lives, found = chain([4 * MB, 8 * MB, 4 * MB], [1.0, 1.0, 1.0])
    problem = Problem(peaks, lives, found)

    assert problem.least_time(problem.least_peak().peak_bytes - 1) is None


def test_a_model_with_nothing_to_recompute_has_the_peak_it_has() -> None:
    problem = Problem([5 * MB, 9 * MB], [5 * MB, 5 * MB], [])

    assert problem.least_peak() == Choice((), 9 * MB, 0.0)
    assert problem.least_time(8 * MB) is None


def test_recomputing_that_needs_more_than_backward_does_counts() -> None:
    peaks, lives, found = chain([10 * MB, 10 * MB], [1.0, 1.0])
    needy = [one._replace(reruns=(Rerun(one.reruns[0].mark, 50 * MB),)) for one in found]
    problem = Problem(peaks, lives, needy)

    # Live at the start of its backward without it, and what recomputing takes on top.
    assert problem.evaluate((1,)).peak_bytes == 30 * MB + 50 * MB
    assert problem.least_peak().chosen == ()


def test_modules_inside_one_another_are_not_both_chosen() -> None:
    peaks, lives, found = chain([10 * MB, 10 * MB, 10 * MB], [5.0, 5.0, 5.0])
    whole = found[0]._replace(
        segment=Segment("b"), saved_bytes=20 * MB, recompute_ms=9.0, calls=(range(2),)
    )
    problem = Problem(peaks, lives, [whole, *found])

    smallest = problem.least_peak()

    assert 0 not in smallest.chosen or not {1, 2} & set(smallest.chosen)
