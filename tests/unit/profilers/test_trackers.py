from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from stepscope import CPUTracker, GPUTracker, IOTracker, MemoryTracker
from stepscope.session import trackers
from stepscope.session.trackers import Tracking, gpu_memory

MB = 2**20


def test_memory_is_what_the_kernel_says() -> None:
    tracker = MemoryTracker()
    assert tracker.get_current_memory() == pytest.approx(
        psutil.Process().memory_info().rss / MB, rel=0.2
    )
    stats = tracker.get_current_stats()
    assert stats["total_gb"] == pytest.approx(psutil.virtual_memory().total / 2**30)
    assert 0 < stats["available_gb"] < stats["total_gb"]
    assert 0 < stats["used_percent"] < 100


def test_a_session_sees_what_is_taken_within_it() -> None:
    tracker = MemoryTracker()
    assert tracker.session_stats == []
    tracker.start_session()
    held = bytearray(b"x" * (60 * MB))
    time.sleep(0.3)
    del held
    stats = tracker.stop_session()
    assert stats == tracker.session_stats
    times = [one["timestamp"] for one in stats]
    assert times == sorted(times)
    assert times[0] >= 0
    memory = [one["memory_mb"] for one in stats]
    assert max(memory) - memory[0] > 40
    assert all(0 < one["memory_percent"] < 100 for one in stats)


def test_sessions_soon_after_one_another_are_all_sampled() -> None:
    """The sampler ends some samples after a session; the next one has to start it again."""
    for gap_s in (0.1, 0.15, 0.2, 0.3):
        tracking = Tracking()
        tracking.start(0.02)
        time.sleep(0.3)
        tracking.stop()
        gauges = tracking.gauges
        assert gauges is not None
        assert [at_s for at_s in gauges.seconds(gauges.rss) if 0.03 < at_s < 0.28], gap_s
        time.sleep(gap_s)


def test_cpu_is_busy_since_the_last_time_it_was_asked() -> None:
    tracker = CPUTracker()
    end = time.thread_time() + 0.1
    while time.thread_time() < end:
        pass
    assert 0 < tracker.get_current_usage() <= 100
    stats = tracker.get_current_stats()
    assert stats["count"] == psutil.cpu_count()
    assert 0 <= stats["usage_percent"] <= 100


def test_cpu_without_a_tick_since_tells_the_same_again(monkeypatch: pytest.MonkeyPatch) -> None:
    readings = iter([(1.0, 4.0), (1.0, 4.0), (2.0, 6.0), (2.0, 6.0)])
    monkeypatch.setattr(trackers, "cpu_times_s", lambda: next(readings))
    tracker = CPUTracker()
    assert tracker.get_current_usage() == 0.0
    assert tracker.get_current_usage() == 50.0
    assert tracker.get_current_usage() == 50.0, "nothing was counted since"


def test_without_a_gpu_there_are_the_zeros_of_the_document(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(trackers, "gpu_memory", lambda: None)
    tracker = GPUTracker()
    assert tracker.get_current_stats() == {"memory_mb": 0.0, "memory_used_percent": 0.0}
    assert tracker.get_current_memory() == 0.0
    tracker.start_session()
    if gpu_memory() is None:
        assert tracker.stop_session() == []


@pytest.mark.parametrize("kind", [MemoryTracker, GPUTracker, CPUTracker, IOTracker])
def test_everything_a_tracker_tells_is_strict_json(kind: Any) -> None:
    tracker = kind()
    tracker.start_session()
    told = [tracker.get_current_stats(), tracker.stop_session()]
    assert json.loads(json.dumps(told, allow_nan=False)) == told


def test_a_gpu_as_torch_sees_it(monkeypatch: pytest.MonkeyPatch) -> None:
    from stepscope.collect.current import GpuMemory

    monkeypatch.setattr(trackers, "gpu_memory", lambda: GpuMemory(512 * MB, 1024 * MB, 2048 * MB))
    assert GPUTracker().get_current_stats() == {
        "memory_mb": 512.0,
        "memory_used_percent": 25.0,
        "reserved_mb": 1024.0,
        "total_gb": 2.0,
    }


def test_what_is_written_is_counted(tmp_path: Path) -> None:
    tracker = IOTracker()
    tracker.start_session()
    with (tmp_path / "file").open("wb") as file:
        file.write(b"x" * (8 * MB))
        file.flush()
        time.sleep(0.3)
    stats = tracker.stop_session()
    now = tracker.get_current_stats()
    assert now["write_mb"] >= 0
    assert tracker.get_current_usage() >= 0
    written = [one["write_mb"] for one in stats]
    assert written == sorted(written)
