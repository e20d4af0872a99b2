from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepscope.model.timeline import ResourcePoint, StepBucket, Timeline
from stepscope.report.charts import Line, line_chart, step_chart

CORES = Line("the program", 0, lambda point: point.program_cores)
NUMBERS = st.floats(-1e12, 1e12)


def timeline(*steps: tuple[float, ...]) -> Timeline:
    starts = [sum(map(sum, steps[:at])) for at in range(len(steps))]
    buckets = [
        StepBucket(start, at, 1, ms)
        for at, (start, ms) in enumerate(zip(starts, steps, strict=True))
    ]
    return Timeline(0, sum(map(sum, steps)), ("input wait", "forward"), tuple(buckets))


def test_phases_stand_upon_one_another_and_steps_beside_one_another() -> None:
    chart = step_chart(timeline((30.0, 10.0), (20.0, 20.0)))  # two steps of 40 ms: as high as it is
    below, above = (area.path for area in chart.areas)
    assert below == "M0 250L500 250L500 500L1000 500L1000 1000L500 1000L500 1000L0 1000Z"
    assert above == "M0 0L500 0L500 0L1000 0L1000 500L500 500L500 250L0 250Z"
    assert chart.cut == ()


def test_a_first_step_of_a_minute_does_not_flatten_the_others() -> None:
    chart = step_chart(timeline((60_000.0, 10.0), *[(30.0, 10.0)] * 99))
    assert chart.y_ticks[-1].label == "40 ms"
    assert len(chart.cut) == 1
    assert chart.cut[0] < 0.99


def test_ticks_are_round_numbers_and_time_is_told_in_minutes_where_it_is_long() -> None:
    short = step_chart(timeline((3000.0, 1000.0)))
    assert [tick.label for tick in short.x_ticks] == ["0 s", "1 s", "2 s", "3 s"]
    long = step_chart(timeline(*[(30_000.0, 10_000.0)] * 90))  # an hour
    assert [tick.label for tick in long.x_ticks][:2] == ["0:00:00", "0:20:00"]


def test_what_was_not_measured_leaves_a_gap_and_what_never_was_no_line() -> None:
    points = [ResourcePoint(at * 1000.0, cores) for at, cores in enumerate((1.0, None, 1.0, 1.0))]
    made = Timeline(0, 3000.0, points=tuple(points), cpu_count=2.0)
    other = Line("other", 1, lambda point: point.children_cores)
    chart = line_chart(made, [CORES, other], "", 2.0)
    (area,) = chart.areas
    assert area.path.count("M") == 2
    assert area.path.count("L") == 1
    assert chart.limit == pytest.approx(1 - 1 / 1.08)


@given(st.lists(st.tuples(NUMBERS, NUMBERS, st.none() | NUMBERS), max_size=9), NUMBERS)
def test_whatever_is_given_is_drawn_within_the_chart(
    rows: list[tuple[float, float, float | None]], wall_ms: float
) -> None:
    buckets = tuple(StepBucket(start, 0, 2, (ms,)) for start, ms, _ in rows)
    points = tuple(ResourcePoint(start, cores) for start, _, cores in rows)
    made = Timeline(0, wall_ms, ("forward",), buckets, points)
    for chart in (step_chart(made), line_chart(made, [CORES], "B", 3.0)):
        numbers = [
            float(number)
            for area in chart.areas
            for number in area.path.translate(str.maketrans("MLZ", "   ")).split()
        ]
        assert all(0 <= number <= 1000 for number in numbers)
        assert len(chart.x_ticks) + len(chart.y_ticks) < 30
