from __future__ import annotations

import pytest

from stepscope.analyze.operations import OperationFold, OperationUse, identity_name
from stepscope.model import names
from stepscope.model.event import Flag
from tests.unit.analyze.made import MS, Event, batch, mark, sample, span

PID, CHILD, MB = 41, 42, 2.0**20
READ = 3  # memory was read at both ends


def run(
    start: float, end: float, identity: str = "1/work", read: int = READ, failed: bool = False
) -> Event:
    made = span(names.OPERATION, start, end, read, flags=int(Flag.FAILED) if failed else 0)
    return made | {"text": identity}


def rss(at: float, mb: float) -> Event:
    return sample(names.PROCESS_RSS_BYTES, at, mb * MB, PID)


def peak(at: float, mb: float) -> Event:
    return sample(names.PROCESS_PEAK_RSS_BYTES, at, mb * MB, PID)


def read(at: float, rss_mb: float, peak_mb: float) -> list[Event]:
    return [rss(at, rss_mb), peak(at, peak_mb)]


def use(events: list[Event], identity: str = "1/work", size: int = 1000) -> OperationUse:
    fold = OperationFold(PID)
    for at in range(0, len(events), size):
        fold.update(batch(events[at : at + size]))
    found = fold.get(identity)
    assert found is not None
    return found


def test_the_name_is_what_the_program_gave() -> None:
    assert identity_name("12/a/b") == "a/b"


def test_what_never_ran_is_not_there() -> None:
    assert OperationFold(PID).get("1/work") is None


def test_without_totals_the_recorded_runs_are_counted() -> None:
    found = use([run(0, 10), run(20, 50, failed=True)])
    assert (found.calls, found.failed, found.wall_ns) == (2, 1, 40 * MS)
    assert found.peak_rss_bytes is None


def test_totals_are_exact_whatever_was_recorded_and_the_last_ones_count() -> None:
    said = {
        names.OPERATION_CALLS: 5000,
        names.OPERATION_FAILED: 7,
        names.OPERATION_WALL_NS: 123,
        names.OPERATION_USER_NS: 45,
        names.OPERATION_SYSTEM_NS: 6,
        names.OPERATION_SHORTEST_NS: 1,
        names.OPERATION_LONGEST_NS: 9,
        names.OPERATION_FLOPS: 1000,
    }
    old = [mark(name, 5, 1, "1/work") for name in said]
    new = [mark(name, 30, value, "1/work") for name, value in said.items()]
    found = use([run(0, 10), *old, *new])
    assert (found.calls, found.failed, found.wall_ns) == (5000, 7, 123)
    assert (found.user_ns, found.system_ns) == (45, 6)
    assert (found.shortest_ns, found.longest_ns, found.flops) == (1, 9, 1000)


@pytest.mark.parametrize("size", [1, 2, 3, 1000])
def test_the_peak_is_that_of_the_marks_from_the_start_to_the_first_after_the_end(
    size: int,
) -> None:
    events = [
        *read(0, 10, 900),  # what was before does not count
        *read(20, 10, 310),
        run(0.5, 19),
        *read(21, 10, 15),
        *read(30, 12, 20),
        run(21.5, 29, "1/next"),
    ]
    assert use(events, size=size).peak_rss_bytes == 310 * MB
    found = use(events, "1/next", size)
    assert found.peak_rss_bytes == 20 * MB
    assert found.peak_is_exact


def test_the_peak_of_an_inner_run_is_also_that_of_the_outer() -> None:
    events = [
        *read(0, 10, 10), *read(5, 10, 11), *read(15, 10, 300), run(5.5, 14, "1/inner"),
        *read(30, 10, 12), run(0.5, 29, "1/outer"),
    ]  # fmt: skip
    assert use(events, "1/inner").peak_rss_bytes == 300 * MB
    assert use(events, "1/outer").peak_rss_bytes == 300 * MB


def test_without_marks_at_both_ends_the_peak_is_what_was_sampled() -> None:
    found = use([rss(0, 10), rss(5, 80), rss(12, 20), run(1, 10, read=0)])
    assert (found.peak_rss_bytes, found.peak_is_exact) == (80 * MB, False)


def test_memory_before_and_after() -> None:
    events = [
        *read(0, 10, 10), *read(10, 30, 40), run(0, 10),
        *read(20, 30, 30), *read(30, 50, 60), run(20, 30),
    ]  # fmt: skip
    found = use(events)
    assert (found.initial_rss_bytes, found.final_rss_bytes) == (10 * MB, 50 * MB)
    assert found.memory[0][0] == 0
    assert found.memory[-1] == (30 * MS, 50 * MB)


def test_memory_of_other_processes_is_not_ours() -> None:
    other = sample(names.PROCESS_PEAK_RSS_BYTES, 5, 999 * MB, CHILD)
    assert use([*read(0, 10, 10), other, *read(10, 10, 20), run(1, 9)]).peak_rss_bytes == 20 * MB


def cpu(pid: int, at: float, s: float) -> Event:
    return sample(names.PROCESS_CPU_NS, at, s * 1e9, pid)


def test_children_that_live_on_count_with_what_they_used_meanwhile() -> None:
    events = [
        cpu(PID, 0, 1.0), cpu(CHILD, 0, 5.0),
        cpu(PID, 1000, 1.1), cpu(CHILD, 1000, 5.8), run(0, 1000),
    ]  # fmt: skip
    assert use(events).living_cpu_ns == pytest.approx(0.8e9)


def test_a_child_that_nobody_looked_at_since_the_end_has_not_ended() -> None:
    events = [
        cpu(PID, 0, 1.0), cpu(CHILD, 0.1, 5.0),
        cpu(PID, 900, 1.1), cpu(CHILD, 900.1, 5.8), run(1, 1000),
    ]  # fmt: skip
    assert use(events).living_cpu_ns == pytest.approx(0.8e9, rel=0.01)


def test_a_child_that_has_ended_is_told_by_its_parent() -> None:
    """It had used 5 s before, which the parent's figures now have too."""
    events = [
        cpu(PID, 0, 1.0), cpu(CHILD, 0, 5.0), cpu(CHILD, 500, 5.5), cpu(PID, 500, 1.0),
        cpu(PID, 1000, 1.1), run(0, 1000),
    ]  # fmt: skip
    assert use(events).living_cpu_ns == pytest.approx(-5.0e9)


def test_without_samples_at_the_start_it_is_not_known() -> None:
    assert use([cpu(PID, 10, 1.0), cpu(PID, 90, 1.1), run(0, 100)]).living_cpu_ns is None


def test_runs_of_threads_come_in_any_order() -> None:
    found = use([run(0, 10), run(500, 600), run(20, 30)])
    assert found.stretches == ((0, 10 * MS), (20 * MS, 30 * MS), (500 * MS, 600 * MS))


def test_between_two_moments() -> None:
    fold = OperationFold(PID)
    fold.update(batch([*read(0, 10, 900), *read(10, 20, 70), *read(20, 30, 30), *read(30, 5, 5)]))
    found = fold.between("1/work", 5 * MS, 20 * MS)
    assert found.wall_ns == 15 * MS
    assert (found.initial_rss_bytes, found.final_rss_bytes) == (15 * MB, 30 * MB)
    assert found.peak_rss_bytes == 70 * MB


def test_a_mark_in_place_of_the_span_of_a_run_is_ignored() -> None:
    assert use([run(1, 2), mark(names.OPERATION, 3, text="1/work")]).calls == 1
