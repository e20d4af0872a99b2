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
    assert metrics.peak_heap_mb == pytest.approx(30, rel=0.1)
    current, peak = tracemalloc.get_traced_memory()
    assert peak >= 30 * 2**20 > current, "it can be asked after the block"
    del profiler
    assert not tracemalloc.is_tracing(), "it was off before"


def test_tracing_goes_off_with_the_last_profiler_that_wants_it() -> None:
    config = ProfilingConfig(enable_tracemalloc=True)
    first, second = CPUMemoryProfiler(config), CPUMemoryProfiler(config)
    first.start_profiling()
    held = bytearray(20 * 2**20)
    second.start_profiling()
    assert first.stop_profiling().peak_heap_mb == pytest.approx(20, rel=0.1)
    del first, held
    assert tracemalloc.is_tracing()
    second.stop_profiling()
    second.config.enable_tracemalloc = False
    second.start_profiling()
    assert not tracemalloc.is_tracing(), "nobody wants it any more"
    second.stop_profiling()


def test_a_change_of_the_settings_counts_from_the_next_start() -> None:
    profiler = CPUMemoryProfiler(ProfilingConfig(cpu_threshold=100, memory_threshold=100))
    for threshold, kinds in ((1.0, []), (100.0, ["cpu-bound"])):
        profiler.start_profiling()
        profiler.config.cpu_threshold = threshold
        end = time.thread_time() + 0.02
        while time.thread_time() < end:
            time.sleep(0.001)  # busy part of the time: between the two thresholds
        profiler.stop_profiling()
        found = [one.kind for one in profiler.get_bottlenecks() if one.kind == "cpu-bound"]
        assert found == kinds
    profiler.start_profiling()
    profiler.config.enabled = False
    assert profiler.stop_profiling().calls == 1, "what was started is measured to its end"
    assert "switched off" in profiler.stop_profiling().notes[0]


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
