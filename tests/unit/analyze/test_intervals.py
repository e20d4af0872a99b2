from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from stepscope.analyze.intervals import Intervals

MOST = 256


def of(*runs: tuple[int, int], gap_ns: int = 0) -> list[tuple[int, int]]:
    intervals = Intervals(gap_ns)
    for run in runs:
        intervals.add(*run)
    return intervals.get()


def test_runs_that_are_apart_stay_apart() -> None:
    assert of((0, 10), (20, 30)) == [(0, 10), (20, 30)]


def test_runs_that_touch_or_overlap_are_one() -> None:
    assert of((0, 10), (10, 20), (15, 30)) == [(0, 30)]


def test_a_short_gap_does_not_count() -> None:
    assert of((0, 10), (15, 20), (26, 30), gap_ns=5) == [(0, 20), (26, 30)]


def test_a_run_around_others_that_ended_before_it_takes_them_in() -> None:
    assert of((10, 20), (50, 60), (0, 100)) == [(0, 100)]


def test_a_run_that_another_thread_tells_of_late_does_not_fill_what_lies_between() -> None:
    assert of((0, 10), (500, 600), (20, 30)) == [(0, 10), (20, 30), (500, 600)]
    assert of((500, 600), (0, 10)) == [(0, 10), (500, 600)]


def test_many_runs_become_few_stretches_that_cover_them_all() -> None:
    runs = [(at * 100, at * 100 + 10) for at in range(10_000)]
    stretches = of(*runs)
    assert 1 <= len(stretches) <= MOST
    assert stretches[0][0] == 0
    assert stretches[-1][1] == runs[-1][1]


def test_the_nearest_are_joined_first() -> None:
    near = [(at * 10, at * 10 + 1) for at in range(MOST)]
    far = (1_000_000_000, 1_000_000_001)
    assert of(*near, far)[-1] == far


@given(
    st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 10**4)), max_size=600),
    st.integers(0, 100),
)
def test_every_run_lies_within_one_stretch_and_stretches_lie_apart_in_order(
    made: list[tuple[int, int]], gap_ns: int
) -> None:
    runs = [(start, start + lasted) for start, lasted in made]
    stretches = of(*runs, gap_ns=gap_ns)
    assert len(stretches) <= MOST
    for start, end in runs:
        assert any(first <= start and end <= last for first, last in stretches)
    for (_, end), (start, _) in pairwise(stretches):
        assert end + gap_ns < start
