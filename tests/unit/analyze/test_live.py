from __future__ import annotations

import pytest

from stepscope.analyze.live import phases_now, rank_now, recent, used_now
from stepscope.analyze.resources import ResourceFold
from stepscope.model import names
from tests.unit.analyze.made import MS, Event, batch, loop, sample, training

PROGRAM, WORKER = 41, 42


def sampled(events: list[Event]) -> ResourceFold:
    fold = ResourceFold()
    fold.update(batch(events))
    return fold


def test_the_end_of_a_loop_is_as_long_as_it_was_asked_for() -> None:
    found = loop(training(100))
    step_ns = found.wall_ns // 100
    lately = recent(found, window_ns=5 * step_ns)
    assert lately.steps == 5
    assert lately.lasted_ns == 5 * step_ns
    assert sum(lately.phases_ns) == lately.lasted_ns
    assert lately.step_ms == pytest.approx(step_ns / MS)


def test_of_a_short_loop_all_of_it_is_recent() -> None:
    found = loop(training(3))
    assert recent(found).steps == 3
    assert recent(found).lasted_ns == found.wall_ns


def test_shares_of_phases_add_up_over_ranks_and_over_both_times() -> None:
    loops = [loop(training(20)), loop(training(10))]
    phases = phases_now(loops, [recent(one, MS) for one in loops])
    assert sum(phase.share for phase in phases) == pytest.approx(1.0)
    assert sum(phase.recent_share or 0.0 for phase in phases) == pytest.approx(1.0)
    assert phases_now([], []) == ()


def test_a_rank_is_told_by_its_steps_and_its_largest_phase() -> None:
    found = loop(training(20))
    rank = rank_now(found, recent(found))
    largest = max(found.phases, key=lambda phase: found.phases[phase].wall_ns)
    assert (rank.rank, rank.steps, rank.phase) == (0, 20, str(largest))
    assert rank.share == pytest.approx(found.share(largest))


def test_use_is_that_of_the_last_seconds_of_the_program_and_its_workers() -> None:
    events: list[Event] = []
    for second in range(100):
        at = second * 1000.0
        busy_s = second if second < 80 else 80 + (second - 80) * 0.5  # half as busy since 80 s
        events += [
            sample(names.HOST_CPU_COUNT, at, 4),
            sample(names.HOST_MEMORY_TOTAL_BYTES, at, 16e9),
            sample(names.PROCESS_CPU_NS, at, busy_s * 1e9, PROGRAM),
            sample(names.PROCESS_CPU_NS, at, busy_s * 1e9, WORKER),
            sample(names.PROCESS_RSS_BYTES, at, 3e9, PROGRAM),
            sample(names.PROCESS_RSS_BYTES, at, 2e9, WORKER),
            sample(names.PROCESS_SHARED_BYTES, at, 1e9, PROGRAM),
            sample(names.PROCESS_SHARED_BYTES, at, 1e9, WORKER),
            sample(names.PROCESS_READ_BYTES, at, second * 5e6, WORKER),
        ]
    used = used_now(sampled(events), {PROGRAM}, 99_000 * MS)
    assert used.cpus == pytest.approx(1.0, rel=0.05)
    assert used.cpu_count == 4
    assert used.memory_bytes == pytest.approx(4e9)  # what they share counts once
    assert used.memory_limit_bytes == 16e9
    assert used.disk_read_bytes_per_s == pytest.approx(5e6, rel=0.05)
    assert used.gpus == ()
    limited = used_now(sampled(events), {PROGRAM}, 99_000 * MS, memory_limit_bytes=8e9)
    assert limited.memory_limit_bytes == 8e9


def test_a_process_that_has_ended_holds_no_memory() -> None:
    events = [sample(names.PROCESS_RSS_BYTES, at * 1000.0, 1e9, WORKER) for at in range(5)]
    events += [sample(names.PROCESS_RSS_BYTES, at * 1000.0, 3e9, PROGRAM) for at in range(60)]
    assert used_now(sampled(events), {PROGRAM}, 59_000 * MS).memory_bytes == 3e9


def test_what_was_not_sampled_is_not_known() -> None:
    used = used_now(ResourceFold(), set(), 10_000 * MS)
    assert used.cpus is None
    assert used.memory_bytes is None
    assert used.memory_limit_bytes is None
