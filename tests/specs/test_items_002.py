"""Items of document 002, the performance profiler, that no other test holds.

docs/specifications.md lists every item with the test that holds it.
"""

from __future__ import annotations

import inspect
import json
import math
import mmap
import os
import threading
import time
from dataclasses import fields
from pathlib import Path

import pytest
import torch
from torch import nn

from stepscope.profilers import (
    ComputeMetrics,
    MemoryMetrics,
    PerformanceMetrics,
    PerformanceProfiler,
    SystemMetrics,
    TimingMetrics,
    UsageError,
)

pytestmark = pytest.mark.timed

MB = 2**20


def busy(cpu_s: float) -> None:
    """Use that much CPU time, however long other programs make it take."""
    end = time.thread_time() + cpu_s
    while time.thread_time() < end:
        pass


def measured(name: str = "work") -> PerformanceMetrics:
    profiler = PerformanceProfiler()
    with profiler.profile(name):
        busy(0.02)
    return profiler.get_metrics()


def figure(value: float | None) -> float:
    assert value is not None
    return value


# ---- PerformanceProfiler ----


def test_the_constructor_has_the_parameters_and_defaults_of_the_document() -> None:
    found = inspect.signature(PerformanceProfiler).parameters
    assert {name: one.default for name, one in list(found.items())[:6]} == {
        "track_gpu": True,
        "track_carbon": False,
        "detailed_memory": False,
        "memory_interval": 0.5,
        "enable_line_profiling": False,
        "estimate_flops": False,
    }


def test_a_profiled_block_has_metrics() -> None:
    metrics = measured("training_loop")
    assert (metrics.operation, metrics.calls) == ("training_loop", 1)
    assert figure(metrics.timing.wall_time_s) >= 0.02
    assert figure(metrics.memory.peak_ram_mb) > 1


def test_metrics_are_found_by_name_and_the_last_operation_is_the_default() -> None:
    profiler = PerformanceProfiler()
    for name in ("load", "train"):
        with profiler.profile(name):
            pass
    assert profiler.get_metrics("load").operation == "load"
    assert profiler.get_metrics().operation == "train"
    assert profiler.get_metrics(None).operation == "train"


def test_the_current_memory_is_what_the_kernel_says_in_mb() -> None:
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    found = PerformanceProfiler().get_current_memory()
    assert isinstance(found, float)
    assert found == pytest.approx(pages * os.sysconf("SC_PAGE_SIZE") / MB, abs=20)


def test_the_timing_breakdown_has_the_seconds_of_every_operation_in_order() -> None:
    profiler = PerformanceProfiler()
    for name in ("load", "train", "load"):
        with profiler.profile(name):
            busy(0.01)
    found = profiler.get_timing_breakdown()
    assert list(found) == ["load", "train"]
    assert found["load"] == profiler.get_metrics("load").timing.wall_time_s
    assert found["load"] >= 0.02


def test_the_share_of_gpu_memory_can_be_compared_with_a_threshold_without_a_gpu() -> None:
    share = PerformanceProfiler().get_current_gpu_memory()
    if torch.cuda.is_available():
        assert 0 <= share <= 1
    else:
        assert math.isnan(share)
        assert not share > 0.9


def test_tracking_the_gpu_only_where_there_is_one_works_everywhere() -> None:
    profiler = PerformanceProfiler(track_gpu=torch.cuda.is_available())
    with profiler.profile("work"):
        pass
    assert profiler.get_metrics().calls == 1


# ---- the metrics ----


def test_the_groups_have_the_attributes_of_the_document() -> None:
    wanted = {
        MemoryMetrics: {"peak_ram_mb", "final_ram_mb", "peak_gpu_mb", "memory_leak_detected"},
        TimingMetrics: {"wall_time_s", "cpu_time_s", "user_time_s", "system_time_s"},
        ComputeMetrics: {
            "estimated_flops", "flops_per_second", "gpu_utilization_percent",
            "cpu_utilization_percent",
        },
        SystemMetrics: {"cpu_percent", "memory_percent", "disk_io_percent", "network_io_mb"},
    }  # fmt: skip
    for group, names in wanted.items():
        assert {one.name for one in fields(group)} >= names


def test_memory_peaks_within_the_block_and_falls_after_it() -> None:
    profiler = PerformanceProfiler()
    with profiler.profile("grow"):
        block = bytearray(b"x" * (64 * MB))
        del block
    memory = profiler.get_metrics().memory
    assert figure(memory.peak_ram_mb) - figure(memory.initial_ram_mb) > 50
    assert figure(memory.peak_ram_mb) - figure(memory.final_ram_mb) > 50


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_the_peak_of_gpu_memory_is_none_without_a_gpu_and_a_note_says_why() -> None:
    metrics = measured()
    assert metrics.memory.peak_gpu_mb is None
    assert any("GPU" in note for note in metrics.notes)


def test_user_and_system_time_add_up_to_the_cpu_time() -> None:
    timing = measured().timing
    both = figure(timing.user_time_s) + figure(timing.system_time_s)
    assert both == pytest.approx(figure(timing.cpu_time_s))
    assert figure(timing.cpu_time_s) >= 0.015
    assert figure(timing.wall_time_s) >= 0.02


def test_cpu_utilisation_is_higher_for_a_block_that_computes_than_for_one_that_sleeps() -> None:
    profiler = PerformanceProfiler()
    with profiler.profile("busy"):
        busy(0.2)
    with profiler.profile("asleep"):
        time.sleep(0.2)
    computing, sleeping = (profiler.get_metrics(name) for name in ("busy", "asleep"))
    used = figure(computing.compute.cpu_utilization_percent)
    assert used > figure(sleeping.compute.cpu_utilization_percent)
    cpus = len(os.sched_getaffinity(0))
    share = figure(computing.timing.cpu_time_s) / figure(computing.timing.wall_time_s)
    assert used == pytest.approx(100 * share / cpus, rel=0.05)


def test_the_metrics_of_the_machine_are_percentages() -> None:
    profiler = PerformanceProfiler()
    with profiler.profile("work"):
        busy(0.1)
    system = profiler.get_metrics().system
    for percent in (system.cpu_percent, system.memory_percent):
        assert 0 < figure(percent) <= 100
    assert system.disk_io_percent is None or 0 <= system.disk_io_percent <= 100
    assert system.network_io_mb is None or system.network_io_mb >= 0


def test_metrics_are_a_dictionary_of_strict_json() -> None:
    metrics = measured()
    saved = json.loads(json.dumps(metrics.to_dict(), allow_nan=False))
    assert set(saved) >= {"memory", "timing", "compute", "system"}
    assert PerformanceMetrics.from_dict(saved) == metrics


# ---- FLOPs ----


def flops(
    batch: int, *, backward: bool = False, times: int = 1, estimate: bool = True
) -> int | None:
    layer = nn.Linear(784, 512, bias=False)
    batches = torch.randn(batch, 784, requires_grad=True)
    profiler = PerformanceProfiler(estimate_flops=estimate)
    with profiler.profile("forward"):
        for _ in range(times):
            loss = layer(batches).sum()
            if backward:
                loss.backward()
    return profiler.get_metrics().compute.estimated_flops


def test_the_flops_of_a_linear_layer_are_exact() -> None:
    assert flops(32) == 2 * 32 * 784 * 512


def test_flops_follow_the_batch_the_backward_pass_and_the_number_of_calls() -> None:
    once = 2 * 8 * 784 * 512
    assert flops(32) == 4 * once
    assert flops(8, backward=True) == 3 * once
    assert flops(8, times=2) == 2 * once
    assert flops(8, estimate=False) is None


# ---- leaks ----


@pytest.mark.parametrize("leaks", [True, False])
def test_memory_that_grows_steadily_is_a_leak_and_steady_use_is_none(leaks: bool) -> None:
    kept: list[mmap.mmap] = []
    profiler = PerformanceProfiler(detailed_memory=True, memory_interval=0.1)
    with profiler.profile("leak"):
        for _ in range(100):
            data = mmap.mmap(-1, MB)  # new pages: the heap of a large process has room to reuse
            data.write(b"x" * MB)
            time.sleep(0.005)
            if leaks:
                kept.append(data)
    memory = profiler.get_metrics().memory
    assert memory.memory_leak_detected is leaks
    grown = figure(memory.final_ram_mb) - figure(memory.initial_ram_mb)
    assert (grown > 90) is leaks


# ---- errors, energy, lines, nesting ----


def work_and_raise(kind: type[BaseException]) -> None:
    busy(0.01)
    raise kind


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, GeneratorExit, ValueError])
def test_any_exception_passes_and_leaves_partial_metrics(kind: type[BaseException]) -> None:
    profiler = PerformanceProfiler()
    with pytest.raises(kind), profiler.profile("failing"):
        work_and_raise(kind)
    assert profiler.has_results()
    metrics = profiler.get_metrics()
    assert (metrics.calls, metrics.failed_calls, metrics.is_partial) == (1, 1, True)
    assert figure(metrics.timing.wall_time_s) >= 0.01


def test_carbon_follows_the_energy_and_the_grid_or_says_why_it_is_unknown() -> None:
    profiler = PerformanceProfiler(track_carbon=True, grams_per_kwh=400.0, cpu_watts=65.0)
    with profiler.profile("work"):
        busy(0.2)
    metrics = profiler.get_metrics()
    if metrics.energy_joules is None:
        assert metrics.energy_method == "unavailable"
        assert any(note.startswith("Energy: ") for note in metrics.notes)
    else:
        assert str(metrics.energy_method).startswith(("measured", "estimated"))
        assert metrics.carbon_grams == pytest.approx(metrics.energy_joules / 3.6e6 * 400)


def test_a_negative_power_of_the_cpus_is_refused_at_construction() -> None:
    with pytest.raises(UsageError, match="cpu_watts=-5 is not possible"):
        PerformanceProfiler(cpu_watts=-5)


def hot() -> float:
    return sum(math.sqrt(number) for number in range(20_000))


def test_line_profiling_finds_the_line_that_takes_the_time() -> None:
    profiler = PerformanceProfiler(enable_line_profiling=True)
    with profiler.profile("lines"):
        end = time.thread_time() + 0.3
        while time.thread_time() < end:
            hot()
    hottest = profiler.get_line_profile("lines").lines[0]
    assert (hottest.file, hottest.line) == (__file__, hot.__code__.co_firstlineno + 1)
    assert hottest.share > 0.5


def test_operations_nest_recurse_and_run_in_threads() -> None:
    profiler = PerformanceProfiler()

    def recurse(depth: int) -> None:
        with profiler.profile("recursive"):
            if depth:
                recurse(depth - 1)

    with profiler.profile("outer"), profiler.profile("inner"):
        recurse(4)
        threads = [threading.Thread(target=recurse, args=(4,)) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert profiler.get_metrics("recursive").calls == 20
    outer, inner = (profiler.get_metrics(name).timing.wall_time_s for name in ("outer", "inner"))
    assert figure(outer) >= figure(inner)
