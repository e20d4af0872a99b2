from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from stepscope import (
    CheckpointEventType,
    CheckpointMonitor,
    CheckpointProfiler,
    MemoryThresholdExceeded,
    RecomputationThresholdExceeded,
    UsageError,
)
from stepscope.profilers import checkpoint_monitor
from stepscope.session.inside import inside
from tests.unit.profilers.standin_door import Call, Door

CHECKPOINT, RECOMPUTE, RETRIEVE, DEALLOCATE = CheckpointEventType


class FakeTimer:
    """A timer whose time a test lets pass."""

    made: list[FakeTimer]

    def __init__(self, tick: Callable[[], None], interval_s: float, name: str) -> None:
        self._tick, self._interval_s = tick, interval_s
        self._is_running, self._passed_s = False, 0.0
        FakeTimer.made.append(self)

    def start(self, left_behind: Callable[[], None]) -> None:
        self._is_running = True

    def stop(self) -> None:
        self._is_running = False

    def let_pass(self, seconds: float) -> None:
        self._passed_s += seconds
        while self._is_running and self._passed_s >= self._interval_s:
            self._passed_s -= self._interval_s
            self._tick()


@pytest.fixture
def timer(monkeypatch: pytest.MonkeyPatch) -> type[FakeTimer]:
    FakeTimer.made = []
    monkeypatch.setattr(checkpoint_monitor, "Ticking", FakeTimer)
    return FakeTimer


def watch(monitor: CheckpointMonitor) -> list[Any]:
    """What it tells."""
    told: list[Any] = []
    monitor.memory_threshold_exceeded.append(lambda _, what: told.append(what))
    monitor.recomputation_threshold_exceeded.append(lambda _, what: told.append(what))
    return told


def test_it_tells_when_checkpoints_hold_more_than_the_threshold(
    profiler: CheckpointProfiler, timer: type[FakeTimer]
) -> None:
    with CheckpointMonitor(profiler, memory_threshold_bytes=1000) as monitor:
        told = watch(monitor)
        profiler.record_event("a", CHECKPOINT, 1, 1001)
        monitor.check_thresholds()
    (what,) = told
    assert isinstance(what, MemoryThresholdExceeded)
    assert (what.current_memory_usage, what.threshold) == (1001, 1000)
    assert what.timestamp.utcoffset() == timedelta(0)


def test_it_tells_when_recomputing_took_longer_than_the_threshold(
    profiler: CheckpointProfiler, timer: type[FakeTimer]
) -> None:
    with CheckpointMonitor(profiler, recompute_threshold_ms=5) as monitor:
        told = watch(monitor)
        profiler.record_event("a", RECOMPUTE, 3)
        profiler.record_event("b", RECOMPUTE, 2.5)
        monitor.check_thresholds()
    (what,) = told
    assert isinstance(what, RecomputationThresholdExceeded)
    assert (what.current_recompute_time, what.threshold) == (5.5, 5)


def test_the_thresholds_themselves_are_not_exceeded(
    profiler: CheckpointProfiler, timer: type[FakeTimer]
) -> None:
    with CheckpointMonitor(profiler, 1000, 5) as monitor:
        told = watch(monitor)
        profiler.record_event("a", CHECKPOINT, 1, 1000)
        profiler.record_event("a", RECOMPUTE, 5)
        monitor.check_thresholds()
        assert told == []
        profiler.record_event("a", CHECKPOINT, 0, 1)
        profiler.record_event("a", RECOMPUTE, 0.000001)  # a nanosecond
        monitor.check_thresholds()
        assert len(told) == 2


def test_thresholds_of_nothing_are_exceeded_by_anything(
    profiler: CheckpointProfiler, timer: type[FakeTimer]
) -> None:
    with CheckpointMonitor(profiler, 0, 0) as monitor:
        told = watch(monitor)
        monitor.check_thresholds()
        assert told == []
        profiler.record_event("a", CHECKPOINT, 0, 1)
        monitor.check_thresholds()
        assert len(told) == 1


def test_it_watches_what_is_in_use_and_not_all_that_ever_was(
    profiler: CheckpointProfiler, timer: type[FakeTimer], door: Door
) -> None:
    with CheckpointMonitor(profiler, memory_threshold_bytes=100) as monitor:
        told = watch(monitor)
        for _ in range(10):
            call = Call("block", kept_bytes=60, saved_bytes=10_000)
            door.checkpointed(call)
            monitor.check_thresholds()
            door.released(call)
        assert told == []
        door.checkpointed(Call("block", kept_bytes=101))
        monitor.check_thresholds()
        assert [what.current_memory_usage for what in told] == [101]


def test_it_looks_at_the_intervals_it_was_given_until_it_is_closed(
    profiler: CheckpointProfiler, timer: type[FakeTimer]
) -> None:
    monitor = CheckpointMonitor(profiler, 0, monitor_interval_ms=250)
    told = watch(monitor)
    profiler.record_event("a", CHECKPOINT, 0, 1)
    (one,) = timer.made
    counts = []
    for _ in range(4):
        one.let_pass(0.125)
        counts.append(len(told))
    one.let_pass(1.0)
    counts.append(len(told))
    assert counts == [0, 1, 1, 2, 6]
    monitor.close()
    monitor.close()
    one.let_pass(10)
    assert len(told) == 6


def test_the_real_timer_looks_too(profiler: CheckpointProfiler) -> None:
    import threading

    seen = threading.Event()
    with CheckpointMonitor(profiler, 0, monitor_interval_ms=1) as monitor:
        monitor.memory_threshold_exceeded.append(lambda *_: seen.set())
        profiler.record_event("a", CHECKPOINT, 0, 1)
        assert seen.wait(20)


def test_a_callback_that_fails_stops_neither_the_others_nor_the_monitor(
    profiler: CheckpointProfiler, timer: type[FakeTimer]
) -> None:
    def fails(monitor: CheckpointMonitor, what: object) -> None:
        raise RuntimeError("no pager today")

    where = "a callback of CheckpointMonitor"
    failures = inside().recorder.failures
    before = failures.get(where, 0)
    with CheckpointMonitor(profiler, 0) as monitor:
        monitor.memory_threshold_exceeded.append(fails)
        told = watch(monitor)
        profiler.record_event("a", CHECKPOINT, 0, 1)
        monitor.check_thresholds()
        monitor.check_thresholds()
    assert len(told) == 2
    assert failures[where] - before == 2


def test_callbacks_are_told_by_whom(profiler: CheckpointProfiler, timer: type[FakeTimer]) -> None:
    told_by = []
    with CheckpointMonitor(profiler, 0) as monitor:
        monitor.memory_threshold_exceeded.append(lambda sender, _: told_by.append(sender))
        profiler.record_event("a", CHECKPOINT, 0, 1)
        monitor.check_thresholds()
        assert told_by == [monitor]


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("memory_threshold_bytes", -1),
        ("recompute_threshold_ms", float("nan")),
        ("monitor_interval_ms", 0),
        ("monitor_interval_ms", "1s"),
        ("monitor_interval_ms", True),
    ],
)
def test_a_setting_that_is_not_possible_is_refused(
    profiler: CheckpointProfiler, setting: str, value: Any
) -> None:
    with pytest.raises(UsageError, match=f"{setting}=.* is not possible: use a number"):
        CheckpointMonitor(profiler, **{setting: value})


def test_without_a_profiler_it_says_what_to_pass() -> None:
    missing: Any = None
    with pytest.raises(UsageError, match="pass a CheckpointProfiler"):
        CheckpointMonitor(missing)
