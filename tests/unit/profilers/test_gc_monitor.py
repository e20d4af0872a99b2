from __future__ import annotations

import gc
import time
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from stepscope import GCMonitor
from stepscope.model import names
from stepscope.session.inside import inside


@pytest.fixture(autouse=True)
def _only_forced_collections() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def test_every_forced_collection_is_counted_by_its_generation() -> None:
    gc.collect()
    with GCMonitor() as monitor:
        assert monitor.is_running
        for generation, count in ((0, 23), (1, 11), (2, 5)):
            for _ in range(count):
                gc.collect(generation)
    gc.collect()
    assert monitor.count_by_generation == {0: 23, 1: 11, 2: 5}
    assert monitor.count == 39
    assert not monitor.is_running


def test_a_burst_of_thousands_is_counted_to_the_last() -> None:
    with GCMonitor() as monitor:
        for _ in range(20_000):
            gc.collect(0)
    assert monitor.count == 20_000


def test_durations_agree_with_an_independent_timer() -> None:
    """Ours lies inside of the other's: both stand in gc.callbacks, the other around us."""
    held = [[number] for number in range(200_000)]  # something to look at
    began = 0
    taken: Counter[int] = Counter()

    def timer(phase: str, info: dict[str, Any]) -> None:
        nonlocal began
        if phase == "start":
            began = time.perf_counter_ns()
        else:
            taken[info["generation"]] += time.perf_counter_ns() - began

    monitor = GCMonitor()
    monitor.start()
    gc.callbacks.append(timer)
    for _ in range(20):
        gc.collect()
    gc.callbacks.remove(timer)
    monitor.stop()
    del held
    assert monitor.total_time / timedelta(microseconds=1) == pytest.approx(
        taken[2] / 1000, rel=0.05
    )
    assert monitor.time_by_generation[2] == monitor.total_time
    assert monitor.total_time / 20 <= monitor.longest_pause <= monitor.total_time


def test_objects_that_were_collected_are_told() -> None:
    with GCMonitor() as monitor:
        cycles: list[list[Any]] = [[] for _ in range(10)]
        for cycle in cycles:
            cycle.append(cycle)
        del cycle, cycles
        gc.collect()
    assert monitor.objects_collected >= 10
    assert monitor.objects_uncollectable == 0


def test_the_share_is_of_the_time_that_was_watched() -> None:
    with GCMonitor() as monitor:
        gc.collect()
        time.sleep(0.05)
    assert 0 < monitor.share < 1
    assert monitor.share == pytest.approx(
        monitor.total_time.total_seconds() / (monitor._watch.wall_ns / 1e9), rel=1e-3
    )
    assert monitor.step_share is None


def test_steps_give_a_share_of_their_own() -> None:
    recorder = inside().recorder
    step = recorder.intern(names.OPTIMIZER_STEP)
    with GCMonitor() as monitor:
        for _ in range(4):
            recorder.end(recorder.begin(step))
            gc.collect()
    assert monitor.step_share is not None
    assert 0.5 < monitor.step_share <= 1
    assert any("of a step" in sentence for sentence in monitor.patterns)


def test_nothing_is_wrong_where_nothing_was_collected() -> None:
    with GCMonitor() as monitor:
        pass
    assert (monitor.count, monitor.total_time, monitor.patterns) == (0, timedelta(), ())
    assert GCMonitor().get_use().generations == ()


def test_a_monitor_can_be_started_again_and_counts_from_then_on() -> None:
    monitor = GCMonitor()
    monitor.start()
    gc.collect()
    monitor.start()
    gc.collect(1)
    assert monitor.count_by_generation == {1: 1}  # also while it goes on
    monitor.close()
