"""Samples become readings of the metric table."""

from __future__ import annotations

import pytest

from stepscope.analyze.readings import SampleReadings
from stepscope.model import names
from stepscope.model.watching import Reading
from tests.unit.analyze.made import MS, Event, batch, sample

PID, WORKER, OTHER = 7, 8, 9
GB = 1e9


def of_the_only_rank(pid: int) -> int:
    return 0


def made(*events: Event, limit_bytes: float | None = None) -> list[Reading]:
    return SampleReadings(of_the_only_rank, limit_bytes).update(batch(events))


def values(readings: list[Reading], metric: str) -> list[float]:
    return [one.value for one in readings if one.metric == metric]


def cpu(at: float, busy_ms: float, pid: int = PID) -> Event:
    return sample(names.PROCESS_CPU_NS, at, busy_ms * MS, pid)


def rss(at: float, held: float, pid: int = PID) -> Event:
    return sample(names.PROCESS_RSS_BYTES, at, held, pid)


def test_cpus_are_those_of_all_processes_of_the_rank() -> None:
    found = made(cpu(0, 0), cpu(1, 0, WORKER), cpu(1000, 900), cpu(1001, 600, WORKER))
    assert values(found, "cpu_ratio") == [pytest.approx(1.5)]
    assert [one.time_ns for one in found] == [1001 * MS]


def test_a_process_that_has_ended_does_not_keep_a_cpu_busy() -> None:
    events = [cpu(0, 0), cpu(1, 0, WORKER), cpu(1000, 500), cpu(1001, 1000, WORKER)]
    events += [cpu(1000 * second, 500 * second) for second in range(2, 8)]
    found = values(made(*events), "cpu_ratio")
    assert found[0] == pytest.approx(1.5)
    assert found[-1] == pytest.approx(0.5)


def test_a_number_that_another_process_got_does_not_run_backwards() -> None:
    found = made(cpu(0, 5000), cpu(1000, 10), cpu(2000, 110))
    assert values(found, "cpu_ratio") == [pytest.approx(0.1)]


def test_shared_memory_counts_once() -> None:
    shared = [sample(names.PROCESS_SHARED_BYTES, 1, GB, pid) for pid in (PID, WORKER)]
    found = made(rss(0, 3 * GB), rss(1, 2 * GB, WORKER), *shared)
    assert values(found, "memory_bytes") == [4 * GB]


def test_the_limit_is_the_machines_unless_a_closer_one_is_known() -> None:
    machine = sample(names.HOST_MEMORY_TOTAL_BYTES, 0, 8 * GB)
    free = sample(names.HOST_MEMORY_AVAILABLE_BYTES, 0, 6 * GB)
    held = rss(1, 2 * GB)
    assert values(made(machine, free, held), "memory_ratio") == [0.25]
    assert values(made(machine, free, held), "host_memory_ratio") == [0.25]
    closer = made(machine, free, held, limit_bytes=4 * GB)
    assert values(closer, "memory_ratio") == [0.5]
    assert values(closer, "memory_limit_bytes") == [4 * GB]


def test_what_other_ranks_hold_is_not_to_be_had() -> None:
    reader = SampleReadings({PID: 0, OTHER: 1}.get, 8 * GB)
    found = reader.update(batch([rss(0, 2 * GB), rss(1, 4 * GB, OTHER)]))
    limits = {one.rank: one.value for one in found if one.metric == "memory_limit_bytes"}
    assert limits == {0: 4 * GB, 1: 6 * GB}


def test_processes_that_are_nobodys_are_left_out() -> None:
    reader = SampleReadings({PID: 0}.get)
    found = reader.update(batch([rss(0, GB), rss(1, 5 * GB, OTHER)]))
    assert values(found, "memory_bytes") == [GB]


def test_each_round_of_samples_is_told_by_itself() -> None:
    found = made(rss(0, GB), rss(100, 2 * GB), rss(200, 3 * GB))
    assert [one.time_ns // MS for one in found] == [0, 100, 200]
    assert [one.value / GB for one in found] == [1, 2, 3]


def test_what_comes_thick_and_fast_is_told_in_rounds() -> None:
    found = made(*(rss(at / 10, GB + at) for at in range(1000)))
    assert len(found) < 10


def test_what_was_held_for_a_moment_is_told_with_its_round() -> None:
    found = made(rss(0, GB), rss(5, 3 * GB), rss(10, 2 * GB), rss(100, GB))
    assert values(found, "memory_bytes") == [3 * GB, GB]


def test_bytes_of_disks_never_fall() -> None:
    def read(at: float, total: float, pid: int) -> Event:
        return sample(names.PROCESS_READ_BYTES, at, total, pid)

    events = [read(0, 100, PID), read(0, 50, WORKER), read(1000, 130, PID), read(2000, 140, PID)]
    found = values(made(*events), "disk_read_bytes_total")
    assert found == [150, 180, 190], "what a worker read stays when it has ended"


def test_a_process_that_is_sampled_has_not_ended() -> None:
    """Between two samples of everything, which may lie far apart, memory alone is looked at."""
    found = made(
        cpu(0, 0),
        sample(names.PROCESS_READ_BYTES, 0, 100, PID),
        *(rss(at, GB) for at in range(500, 10_000, 500)),
        cpu(10_000, 0),
        sample(names.PROCESS_READ_BYTES, 10_000, 130, PID),
    )
    assert values(found, "memory_bytes") == [GB] * 19
    assert values(found, "disk_read_bytes_total") == [100, 130]


def test_the_machines_cpus_are_a_share_of_those_that_may_be_used() -> None:
    count = sample(names.HOST_CPU_COUNT, 0, 4)
    busy = [sample(names.HOST_CPU_BUSY_NS, at, at * 3 * MS) for at in (0, 1000)]
    found = made(count, *busy)
    assert values(found, "host_cpu_ratio") == [0.75]


def test_what_was_not_counted_anew_is_not_told_again() -> None:
    count = sample(names.HOST_CPU_COUNT, 0, 2)
    busy = [
        sample(names.HOST_CPU_BUSY_NS, at, total_ms * MS)
        for at, total_ms in ((1, 0), (11, 20), (101, 100), (111, 120))  # two are too soon
    ]
    found = [one for one in made(count, *busy) if one.metric == "host_cpu_ratio"]
    assert [(one.time_ns // MS, one.value) for one in found] == [(101, 0.5)]


def test_every_gpu_is_a_series_of_its_own() -> None:
    events = [sample(names.GPU_MEMORY_TOTAL_BYTES, 0, 8 * GB, gpu) for gpu in (0, 1)]
    events += [sample(names.GPU_MEMORY_USED_BYTES, 1, (gpu + 1) * 2 * GB, gpu) for gpu in (0, 1)]
    events += [sample(names.GPU_TEMPERATURE_CELSIUS, 1, 71.0, 1)]
    found = made(*events)
    shares = {one.label: one.value for one in found if one.metric == "gpu_memory_ratio"}
    assert shares == {"0": 0.25, "1": 0.5}
    assert [one.label for one in found if one.metric == "gpu_temperature_celsius"] == ["1"]


def test_a_gpus_share_is_told_from_its_first_sample_on() -> None:
    found = made(
        sample(names.GPU_MEMORY_USED_BYTES, 0, 2 * GB),
        sample(names.GPU_MEMORY_TOTAL_BYTES, 1, 8 * GB),
        sample(names.GPU_MEMORY_USED_BYTES, 1000, 4 * GB),
        sample(names.GPU_MEMORY_TOTAL_BYTES, 1001, 8 * GB),
    )
    assert values(found, "gpu_memory_ratio") == [0.25, 0.5]


def test_nothing_sampled_is_nothing_told() -> None:
    assert made(sample(names.LOSS, 0, 1.0)) == []


def test_thousands_of_workers_that_ended_are_kept_as_a_sum() -> None:
    readings, found = SampleReadings(of_the_only_rank), []
    for number in range(1000):
        at, pid = number * 20_000.0, 100 + number
        events = [cpu(at + part, part, pid) for part in (0.0, 1000.0)]
        events.append(sample(names.PROCESS_READ_BYTES, at + 1000, 50, pid))
        found += values(readings.update(batch(events)), "disk_read_bytes_total")
    assert found[-1] == 1000 * 50
    assert len(readings._ranks[0].disk) < 10
