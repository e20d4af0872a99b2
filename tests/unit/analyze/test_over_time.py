from __future__ import annotations

import pytest

from stepscope.analyze.over_time import histories, in_pieces
from stepscope.model.live import LIVE_POINTS, History, Unit
from stepscope.model.timeline import ResourcePoint, StepBucket, Timeline

PHASES = ("input wait", "forward", "evaluation")


def made(buckets: list[StepBucket], points: tuple[ResourcePoint, ...] = ()) -> Timeline:
    wall_ms = sum(sum(bucket.ms) for bucket in buckets)
    return Timeline(0, wall_ms, PHASES, tuple(buckets), points)


def named(found: tuple[History, ...], name: str) -> tuple[float | None, ...]:
    return next(one.points for one in found if one.name == name)


def test_steps_are_spread_over_equal_pieces_of_time() -> None:
    # Ten steps of 100 ms, then ten of 300 ms: a quarter of the time is the first ten.
    quick = [StepBucket(at * 100.0, at, 1, (50.0, 50.0, 0.0)) for at in range(10)]
    slow = [StepBucket(1000 + at * 300.0, 10 + at, 1, (250.0, 50.0, 0.0)) for at in range(10)]
    found = histories(made(quick + slow), most=4)
    assert named(found, "step time") == pytest.approx((100.0, 300.0, 300.0, 300.0))
    assert named(found, "steps/s") == pytest.approx((10.0, 10 / 3, 10 / 3, 10 / 3))
    assert named(found, "input wait") == pytest.approx((0.5, 5 / 6, 5 / 6, 5 / 6))


def test_evaluation_is_no_part_of_a_step() -> None:
    buckets = [
        StepBucket(0.0, 0, 5, (250.0, 250.0, 0.0)),
        StepBucket(500.0, 5, 0, (0.0, 0.0, 500.0)),
    ]
    found = histories(made(buckets))
    assert named(found, "step time") == (100.0, None)
    assert named(found, "steps/s") == (10.0, 0.0)


def test_the_whole_run_is_in_it_however_long() -> None:
    buckets = [StepBucket(at * 10.0, at * 7, 7, (1.0, 9.0, 0.0)) for at in range(500)]
    points = tuple(ResourcePoint(at * 10.0, program_rss_bytes=at) for at in range(500))
    found = histories(made(buckets, points))
    assert {len(one.points) for one in found} == {LIVE_POINTS}
    memory = named(found, "memory")
    assert memory[0] == pytest.approx(4.0)  # the most of the first piece: points 0 to 4
    assert memory[-1] == 499.0
    assert sum(rate or 0.0 for rate in named(found, "steps/s")) == pytest.approx(
        3500 / 5.0 * LIVE_POINTS
    )


def test_program_and_workers_count_together() -> None:
    points = (ResourcePoint(50.0, 1.0, 0.5, 2e9, 1e9), ResourcePoint(100.0, 2.0, None, 2e9))
    found = histories(made([StepBucket(0.0, 0, 1, (0.0, 100.0, 0.0))], points))
    assert named(found, "CPU") == (1.5, 2.0)
    assert named(found, "memory") == (3e9, 2e9)
    assert [one.unit for one in found if one.name == "CPU"] == [Unit.CPUS]
    assert not any(one.name == "GPU" for one in found)


def test_a_sample_stands_for_the_time_before_it() -> None:
    assert in_pieces([(10.0, 5.0), (40.0, 7.0)], 0.0, 40.0, 4, max) == (5.0, 7.0, 7.0, 7.0)
    assert in_pieces([], 0.0, 40.0, 4, max) == ()


def test_without_a_step_there_is_no_history() -> None:
    assert histories(Timeline(0, 0.0)) == ()
