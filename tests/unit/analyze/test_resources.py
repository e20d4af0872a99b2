from __future__ import annotations

import pytest

from stepscope.analyze.resources import ResourceFold
from stepscope.analyze.series import POINTS, Series
from stepscope.model import names
from tests.unit.analyze.made import MS, Event, batch, sample

S = 1000.0  # ms
PROGRAM, WORKER, LATE = 41, 42, 43


def counted(name: str, per_s: float, pid: int = 0, first: int = 0, last: int = 10) -> list[Event]:
    return [sample(name, at * S, (at - first) * per_s, pid) for at in range(first, last + 1)]


def used(events: list[Event], start: float = 2.0, end: float = 8.0):  # type: ignore[no-untyped-def]
    fold = ResourceFold()
    fold.update(batch(events))
    return fold.get(round(start * S * MS), round(end * S * MS), {PROGRAM})


def test_counters_are_differenced_over_the_time_of_the_loop() -> None:
    found = used(
        [
            *counted(names.PROCESS_CPU_NS, 1.5e9, PROGRAM),
            *counted(names.PROCESS_CPU_NS, 0.5e9, WORKER),
            *counted(names.PROCESS_READ_BYTES, 2e6, WORKER),
            *counted(names.HOST_PRESSURE_IO_NS, 0.25e9),
        ]
    )
    assert found.program.cpu_cores == pytest.approx(1.5)
    assert (found.children.processes, found.children.cpu_cores) == (1, pytest.approx(0.5))
    assert found.children.read_bytes_per_s == pytest.approx(2e6)
    assert found.pressure_io_share == pytest.approx(0.25)


def test_the_edges_of_the_loop_may_lie_between_samples() -> None:
    found = used(counted(names.PROCESS_CPU_NS, 1e9, PROGRAM), start=2.3, end=4.7)
    assert found.program.cpu_cores == pytest.approx(1.0)


def test_a_process_that_began_within_the_loop_counts_from_its_beginning() -> None:
    late = [sample(names.PROCESS_CPU_NS, at * S, (at - 4) * 1e9, LATE) for at in range(5, 11)]
    found = used([*counted(names.PROCESS_CPU_NS, 1e9, PROGRAM), *late])
    assert found.children.cpu_cores == pytest.approx(4 / 6)  # 4 of the 6 seconds


def test_samples_that_lie_far_apart_say_nothing_about_a_short_loop() -> None:
    found = used(counted(names.PROCESS_CPU_NS, 1e9, PROGRAM), start=2.3, end=2.7)
    assert found.program.cpu_cores is None


def test_a_mark_that_is_read_and_reset_counts_for_the_time_since_it_was_read_before() -> None:
    for name in (names.PYTHON_PEAK_BYTES, names.GPU_PEAK_ALLOCATED_BYTES):
        found = used(
            [
                sample(name, 1.0 * S, 900.0),  # before the window
                sample(name, 8.1 * S, 64.0),  # the first one after its end
                sample(name, 9.0 * S, 700.0),  # what came later
            ]
        )
        peak = found.heap_peak_bytes if found.gpus == () else found.gpus[0].peak_allocated_bytes
        assert peak == 64.0


def test_what_was_not_sampled_is_absent_and_not_zero() -> None:
    found = used(counted(names.PROCESS_CPU_NS, 1e9, PROGRAM))
    assert found.program.read_bytes_per_s is None
    assert found.children.cpu_cores is None
    assert found.cpu_count is None
    assert found.gpus == ()
    nothing = ResourceFold().get(0, 1000, {PROGRAM})
    assert (nothing.program.processes, nothing.program.cpu_cores) == (0, None)


def test_peaks_and_lows_are_those_within_the_loop() -> None:
    found = used(
        [
            *counted(names.PROCESS_CPU_NS, 1e9, PROGRAM),
            *[sample(names.PROCESS_RSS_BYTES, at * S, 100.0 * at, PROGRAM) for at in range(11)],
            *[
                sample(names.HOST_MEMORY_AVAILABLE_BYTES, at * S, 1000 - 10 * at)
                for at in range(11)
            ],
            sample(names.HOST_CPU_COUNT, 0, 2),
            sample(names.GPU_BUSY_SHARE, 3 * S, 0.4, 1),
            sample(names.GPU_BUSY_SHARE, 5 * S, 0.6, 1),
            sample(names.GPU_BUSY_SHARE, 9 * S, 1.0, 1),
        ]
    )
    assert found.program.peak_rss_bytes == 800.0
    assert found.memory_available_bytes == 920.0
    assert found.cpu_count == 2.0
    assert (found.gpus[0].index, found.gpus[0].busy_share) == (1, pytest.approx(0.5))
    assert found.to_dict()["gpus"][0]["memory_used_bytes"] is None


def test_a_long_series_keeps_its_growth_in_bounded_memory() -> None:
    series = Series(lambda _, later: later)
    for second in range(20_000):
        series.update(second, 3.0 * second)
    assert len(series._times) <= POINTS
    assert series.growth(1000, 19_000, from_zero=False) == pytest.approx(54_000)


def test_children_that_lived_too_short_to_be_sampled_are_counted_by_their_parent() -> None:
    reaped = counted(names.PROCESS_REAPED_CPU_NS, 1.8e9, PROGRAM)
    still_there = counted(names.PROCESS_CPU_NS, 0.1e9, WORKER)
    found = used([*counted(names.PROCESS_CPU_NS, 1e9, PROGRAM), *reaped, *still_there])
    assert found.children.cpu_cores == pytest.approx(1.9)
    without = used([*counted(names.PROCESS_CPU_NS, 1e9, PROGRAM), *reaped])
    assert without.children.cpu_cores == pytest.approx(1.8)


def test_a_child_that_ended_is_not_counted_twice() -> None:
    # It ran from 0 to 5 s on one CPU; its parent waited for it at 6 s.
    child = counted(names.PROCESS_CPU_NS, 1e9, WORKER, last=5)
    reaped = [
        sample(names.PROCESS_REAPED_CPU_NS, at * S, 5e9 * (at >= 6), PROGRAM) for at in range(11)
    ]
    found = used([*counted(names.PROCESS_CPU_NS, 1e9, PROGRAM), *child, *reaped])
    assert found.children.cpu_cores == pytest.approx(3 / 6)  # from 2 to 5 s, of 6 s


def test_how_many_children_were_seen_at_a_time() -> None:
    early = counted(names.PROCESS_CPU_NS, 1e9, WORKER, last=5)
    found = used([*counted(names.PROCESS_CPU_NS, 1e9, PROGRAM), *early])
    assert found.children.seen == pytest.approx(3 / 6)


@pytest.mark.parametrize("name", [names.PYTHON_PEAK_BYTES, names.GPU_PEAK_ALLOCATED_BYTES])
def test_a_mark_that_is_read_after_the_end_tells_of_the_time_before_it(name: str) -> None:
    """It is read and reset before the start (900), after the end (300), and once more (800)."""
    found = used([sample(name, 1 * S, 900), sample(name, 8.1 * S, 300), sample(name, 9 * S, 800)])
    is_heap = name == names.PYTHON_PEAK_BYTES
    assert (found.heap_peak_bytes if is_heap else found.gpus[0].peak_allocated_bytes) == 300


def workers(count: int) -> list[list[Event]]:
    """One after the other, ten seconds each: a core kept busy, 5 MB read a second, 100 MB held."""
    found = []
    for number in range(count):
        first, pid = 10 * number, 1000 + number
        found.append(
            [
                *counted(names.PROCESS_CPU_NS, 1e9, pid, first, first + 9),
                *counted(names.PROCESS_READ_BYTES, 5e6, pid, first, first + 9),
                *(sample(names.PROCESS_RSS_BYTES, at * S, 1e8, pid) for at in (first, first + 9)),
                sample(names.PROCESS_CPU_NS, (first + 9.5) * S, (first + 9.5) * 1e9, PROGRAM),
            ]
        )
    return found


def test_thousands_of_workers_are_kept_as_few_and_add_up_all_the_same() -> None:
    fold = ResourceFold()
    for events in workers(1000):
        fold.update(batch(events))
    assert len(fold.series(names.PROCESS_CPU_NS)) < 100
    found = fold.get(0, round(10_000 * S * MS), {PROGRAM})
    assert found.children.processes == 1000
    assert found.children.cpu_cores == pytest.approx(0.9, rel=0.01)  # nine of ten seconds
    assert found.children.read_bytes_per_s == pytest.approx(0.9 * 5e6, rel=0.01)
    assert found.children.seen == pytest.approx(0.9, rel=0.01)
    assert found.children.peak_rss_bytes == 1e8
    assert found.program.processes == 1


def test_as_many_processes_as_there_are_at_a_time_are_kept() -> None:
    fold = ResourceFold()
    for at in range(0, 300, 5):
        fold.update(
            batch([sample(names.PROCESS_CPU_NS, at * S, at * 1e9, pid) for pid in range(1, 201)])
        )
    assert len(fold.series(names.PROCESS_CPU_NS)) == 200


def test_a_process_with_the_number_of_those_that_ended_is_one_process() -> None:
    """No process is called -1; a damaged file may say so."""
    found = used(counted(names.PROCESS_CPU_NS, 1e9, -1))
    assert (found.children.processes, found.children.cpu_cores) == (1, pytest.approx(1.0))
