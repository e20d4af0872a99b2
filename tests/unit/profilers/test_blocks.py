from __future__ import annotations

import time
import tracemalloc
from typing import Any

import pytest

from stepscope import (
    BottleneckType,
    CPUMemoryProfiler,
    GPUProfiler,
    NoResultsError,
    ProfilingConfig,
    UsageError,
)

BOTH = pytest.mark.parametrize("kind", [CPUMemoryProfiler, GPUProfiler])


@BOTH
def test_from_start_to_stop_and_again(kind: Any) -> None:
    profiler = kind()
    for seconds in (0.02, 0.05):
        profiler.start_profiling()
        time.sleep(seconds)
        assert profiler.current_metrics.execution_time >= seconds
        metrics = profiler.stop_profiling()
        assert metrics.execution_time >= seconds
        assert metrics.calls == 1, "of this block alone"
        assert isinstance(profiler.get_bottlenecks(), list)


@BOTH
def test_starting_and_stopping_in_the_wrong_order_is_refused(kind: Any) -> None:
    profiler = kind()
    with pytest.raises(UsageError, match=r"start_profiling\(\) first"):
        profiler.stop_profiling()
    with pytest.raises(UsageError, match=r"start_profiling\(\) first"):
        _ = profiler.current_metrics
    with pytest.raises(NoResultsError, match="nothing to judge yet"):
        profiler.get_bottlenecks()
    profiler.start_profiling()
    with pytest.raises(UsageError, match="profiling already"):
        profiler.start_profiling()
    profiler.stop_profiling()


def test_computing_all_the_time_is_found() -> None:
    profiler = CPUMemoryProfiler(ProfilingConfig(cpu_threshold=1))
    profiler.start_profiling()
    end = time.thread_time() + 0.2
    while time.thread_time() < end:
        pass
    metrics = profiler.stop_profiling()
    assert "cpu-bound" in [found.kind for found in profiler.get_bottlenecks()]
    assert metrics.bottleneck_type is BottleneckType.CPU_BOUND
    assert 0 < (metrics.bottleneck_severity or 0) <= 1


def test_the_peak_of_python_objects_is_measured_when_asked() -> None:
    profiler = CPUMemoryProfiler(ProfilingConfig(enable_tracemalloc=True))
    profiler.start_profiling()
    held = bytearray(30 * 2**20)
    del held
    metrics = profiler.stop_profiling()
    assert not tracemalloc.is_tracing(), "it was off before"
    assert metrics.peak_heap_mb == pytest.approx(30, rel=0.1)


def test_without_a_gpu_the_notes_say_so() -> None:
    profiler = GPUProfiler()
    profiler.start_profiling()
    metrics = profiler.stop_profiling()
    if metrics.gpu_usage is None:
        assert any("No GPU was seen" in note for note in metrics.notes)


@BOTH
def test_switched_off_nothing_is_measured(kind: Any) -> None:
    profiler = kind(ProfilingConfig(enabled=False))
    profiler.start_profiling()
    assert not profiler.current_metrics.memory_usage > 0
    assert "switched off" in profiler.stop_profiling().notes[0]
    assert profiler.get_bottlenecks() == []
