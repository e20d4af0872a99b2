from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from stepscope.analyze.series import Series

POINTS = 64
AMOUNTS = st.lists(st.integers(0, 1000), min_size=1, max_size=400)


def later(_: float, value: float) -> float:
    return value


def series(values: list[int], join: object = later) -> Series:
    made = Series(join, POINTS)  # type: ignore[arg-type]
    for at, value in enumerate(values):
        made.update(at + 1, float(value))
    return made


@given(AMOUNTS)
def test_what_is_recent_stays_as_it_was_sampled(values: list[int]) -> None:
    """The newer half of what fits."""
    recent = values[-POINTS // 2 :]
    first = len(values) - len(recent) + 1
    assert series(values).points(first, len(values)) == [
        (first + at, float(value)) for at, value in enumerate(recent)
    ]


@given(AMOUNTS)
def test_memory_is_bounded_and_the_ends_are_kept(values: list[int]) -> None:
    points = series(values).points(0, 1000)
    assert len(points) <= POINTS
    assert points[0] == (1, float(values[0]))
    assert points[-1] == (len(values), float(values[-1]))
    assert [at for at, _ in points] == sorted({at for at, _ in points})


@given(AMOUNTS)
def test_no_peak_is_lost(values: list[int]) -> None:
    assert series(values, max).most(0, len(values)) == max(values)


@given(AMOUNTS, st.data())
def test_the_peak_of_a_part_is_never_less_than_it_was(
    values: list[int], data: st.DataObject
) -> None:
    start = data.draw(st.integers(0, len(values) - 1))
    end = data.draw(st.integers(start + 1, len(values)))
    most = series(values, max).most(start, end)
    assert most is not None
    assert most >= max(values[start:end])


@given(AMOUNTS)
def test_the_growth_of_a_counter_is_kept(steps: list[int]) -> None:
    counter = [sum(steps[: at + 1]) for at in range(len(steps))]
    grown = series(counter).growth(1, len(counter), from_zero=False)
    assert grown == (counter[-1] - counter[0] if len(counter) > 1 else None)


def test_a_sample_that_comes_late_joins_the_last_one() -> None:
    made = Series(max)
    made.update(10, 5.0)
    made.update(8, 7.0)
    assert made.points(0, 100) == [(10, 7.0)]


def test_a_mark_covers_the_time_since_the_one_before_it() -> None:
    made = series([10, 70, 20, 30])  # at 1, 2, 3, 4
    assert made.most(1, 2) == 70
    assert made.most(2, 3) == 20, "what stands at its beginning is of the time before"
    assert made.most(2, 4) == 30
    assert made.most(4, 9) is None
