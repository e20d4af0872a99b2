from __future__ import annotations

import os

import pytest

from stepscope.analyze.gauges import GaugeFold, crossing
from stepscope.analyze.series import Series
from stepscope.model import names
from stepscope.model.process import ProcessInfo
from tests.unit.analyze.made import Event, batch, sample

MS = 1_000_000
HERE = ProcessInfo(os.getpid(), 1, 0, 1, "host", "program", (), "3.11", "native", 0, 0)


def series(*values: float) -> Series:
    made = Series(max)
    for at, value in enumerate(values):
        made.update((at + 1) * MS, value)
    return made


def folded(*events: Event) -> GaugeFold:
    fold = GaugeFold(start_ns=0)
    fold.update(HERE, [batch(events)])
    return fold


def test_how_far_and_how_long_a_threshold_was_passed() -> None:
    found = crossing(series(0.5, 0.8, 0.9, 0.8, 0.5, 0.85), threshold=0.8)
    assert found.times == 2
    assert found.peak == 0.9
    assert found.above_ns == 2 * MS  # from the second sample to the fourth
    assert found.watched_ns == 5 * MS
    assert found.far == pytest.approx(0.5)  # halfway from 0.8 to full
    assert found.long == pytest.approx(0.4)


def test_a_threshold_that_was_not_reached() -> None:
    assert crossing(series(0.1, 0.79), 0.8).times == 0
    assert crossing(Series(max), 0.8).times == 0
    assert crossing(series(1.0, 1.0), 1.0).far == 1.0


def test_memory_of_the_machine_is_what_is_not_available() -> None:
    fold = folded(
        sample(names.HOST_MEMORY_TOTAL_BYTES, 1, 1000.0),
        sample(names.HOST_MEMORY_AVAILABLE_BYTES, 1.1, 250.0),
    )
    assert fold.seconds(fold.memory, 100.0) == {0.0011: 75.0}
    assert fold.seconds(fold.gpu) == {}


def test_the_fullest_gpu_counts() -> None:
    fold = folded(
        *(
            sample(name, at, value, arg=gpu)
            for gpu, at, used in ((0, 1.0, 10.0), (1, 2.0, 90.0))
            for name, value in (
                (names.GPU_MEMORY_USED_BYTES, used),
                (names.GPU_MEMORY_TOTAL_BYTES, 100.0),
            )
        )
    )
    assert list(fold.seconds(fold.gpu, 100.0).values()) == [90.0]


def test_cpus_are_a_rate_over_at_least_some_ticks() -> None:
    fold = folded(
        sample(names.HOST_CPU_COUNT, 0, 2.0),
        sample(names.HOST_CPU_BUSY_NS, 1, 0.0),
        sample(names.HOST_CPU_BUSY_NS, 11, 20.0 * MS),  # too soon after the first
        sample(names.HOST_CPU_BUSY_NS, 101, 100.0 * MS),
    )
    assert list(fold.seconds(fold.cpu).values()) == [pytest.approx(0.5)]


def test_only_this_process_counts_and_only_from_the_start_on() -> None:
    fold = GaugeFold(start_ns=5 * MS)
    fold.update(HERE, [batch([sample(names.PROCESS_RSS_BYTES, 1, 7.0, arg=os.getpid())])])
    later = batch([
        sample(names.PROCESS_RSS_BYTES, 6, 8.0, arg=os.getpid()),
        sample(names.PROCESS_RSS_BYTES, 7, 9.0, arg=os.getpid() + 1),
    ])  # fmt: skip
    fold.update(HERE, [later])
    assert list(fold.seconds(fold.rss).values()) == [8.0]
