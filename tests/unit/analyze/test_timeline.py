from __future__ import annotations

import pytest

from stepscope.analyze.resources import ResourceFold
from stepscope.analyze.timeline import make_timeline
from stepscope.model import names
from stepscope.model.timeline import MAX_POINTS
from tests.unit.analyze.made import Event, batch, in_eval, loop, sample, training

PROGRAM, WORKER = 41, 42


def sampled(events: list[Event]) -> ResourceFold:
    fold = ResourceFold()
    if events:
        fold.update(batch(events))
    return fold


def counter(name: str, pid: int, per_ms: float, times: range) -> list[Event]:
    return [sample(name, at, (at - times[0]) * per_ms, pid) for at in times]


def test_every_step_has_a_bucket_while_there_are_few() -> None:
    found = loop(training(5))
    made = make_timeline(found, sampled([]), {PROGRAM})
    assert [bucket.steps for bucket in made.buckets] == [1] * 5
    assert [bucket.first_step for bucket in made.buckets] == [0, 1, 2, 3, 4]
    assert made.wall_ms == found.wall_ns / 1e6
    assert set(made.phases) == {p.value for p, time in found.phases.items() if time.wall_ns}
    assert made.points == ()


def test_buckets_follow_one_another_and_add_up_to_the_loop() -> None:
    found = loop(training(1700))
    made = make_timeline(found, sampled([]), {PROGRAM})
    assert len(made.buckets) <= MAX_POINTS
    assert sum(bucket.steps for bucket in made.buckets) == 1700
    end = 0.0
    for bucket in made.buckets:
        assert bucket.start_ms == pytest.approx(end)
        end = bucket.start_ms + sum(bucket.ms)
    assert end == pytest.approx(made.wall_ms)


def test_what_comes_after_the_last_step_has_its_own_bucket() -> None:
    events = training(40)
    last = max(float(event["time_ns"]) + float(event["duration_ns"]) for event in events) / 1e6
    found = loop([*events, in_eval(last + 1, last + 31)])
    made = make_timeline(found, sampled([]), {PROGRAM}, most=10)
    assert len(made.buckets) <= 10
    assert [bucket.steps for bucket in made.buckets][-1] == 0
    assert made.buckets[-1].ms[made.phases.index("evaluation")] == pytest.approx(30.0)


def test_the_size_of_the_process_that_trains_is_kept_as_often_as_it_was_sampled() -> None:
    found = loop(training(10))
    begin = found.start_ns // 1_000_000
    own, launchers = names.PROCESS_OWN_RSS_BYTES, names.PROCESS_RSS_BYTES
    sizes = [sample(own, begin + at, 7e6 + at, found.pid) for at in range(9)]
    other = sample(own, begin, 1e6, found.pid + 1)
    outside, inside = sampled([sample(launchers, begin, 1e6, found.pid)]), sampled([*sizes, other])
    made = make_timeline(found, outside, {found.pid}, own=inside)
    assert made.rss == tuple((float(at), 7e6 + at) for at in range(9))
    assert len(make_timeline(found, outside, {found.pid}, most=4, own=inside).rss) == 3
    assert make_timeline(found, outside, {found.pid}).rss == ((0.0, 1e6),)


def test_cpu_is_the_growth_between_two_samples_and_memory_what_it_was() -> None:
    found = loop(training(10))
    wall = round(found.wall_ns / 1e6)
    begin = round(found.start_ns / 1e6)
    times = range(begin - 20, begin + wall + 20, 20)
    made = make_timeline(
        found,
        sampled(
            [
                *counter(names.PROCESS_CPU_NS, PROGRAM, 0.5e6, times),  # half a CPU
                *counter(names.PROCESS_CPU_NS, WORKER, 1.5e6, times),
                *[sample(names.PROCESS_RSS_BYTES, at, 7e6, PROGRAM) for at in times],
                sample(names.HOST_CPU_COUNT, begin, 4.0),
            ]
        ),
        {PROGRAM},
    )
    assert made.cpu_count == 4.0
    assert made.points
    for point in made.points:
        assert 0 < point.at_ms <= made.wall_ms
        assert point.program_cores == pytest.approx(0.5)
        assert point.children_cores == pytest.approx(1.5)
        assert point.program_rss_bytes == pytest.approx(7e6)
        assert (point.children_rss_bytes, point.gpu_busy_share) == (None, None)


def test_a_worker_that_ends_is_not_counted_twice() -> None:
    found = loop(training(10))
    begin, end = found.start_ns // 1_000_000, found.end_ns // 1_000_000
    middle = (begin + end) // 2
    times = range(begin, end, 10)
    lived = range(begin, middle, 10)
    used = (lived[-1] - begin) * 1e6  # one CPU while it lived
    reaped = [
        sample(names.PROCESS_REAPED_CPU_NS, at, used * (at > lived[-1]), PROGRAM) for at in times
    ]
    made = make_timeline(
        found,
        sampled([
            *counter(names.PROCESS_CPU_NS, PROGRAM, 1e6, times),
            *counter(names.PROCESS_CPU_NS, WORKER, 1e6, lived),
            *reaped,
        ]),
        {PROGRAM},
    )  # fmt: skip
    cores = [(point.at_ms, point.children_cores or 0.0) for point in made.points]
    grown = sum(
        (at - before) * c for (before, _), (at, c) in zip([(0.0, 0.0), *cores], cores, strict=False)
    )
    assert grown * 1e6 == pytest.approx(used, rel=0.1)
    assert max(c for _, c in cores) == pytest.approx(1.0, abs=0.05)


def test_points_are_bounded() -> None:
    found = loop(training(400))
    times = range(round(found.end_ns / 1e6))
    fold = sampled(counter(names.PROCESS_CPU_NS, PROGRAM, 1e6, times))
    assert 300 < len(make_timeline(found, fold, {PROGRAM}).points) <= MAX_POINTS
