"""The blocks of specification 003 about configuration, metrics, profilers of CPU, GPU and data
loading, decorator and context manager, and troubleshooting. Those about optimisation and monitoring
are beside this."""

from __future__ import annotations

import logging
import time
import tracemalloc
from typing import Any

import stepscope
from stepscope import BottleneckType, CPUMemoryProfiler, ProfilingConfig, ProfilingLevel
from tests.specs.case import Case, Names

__all__ = ["CASES"]


# ---- configuration and metrics ----


def every_setting_is_as_given(names: Names, printed: str) -> None:
    config = names["config"]
    assert config.level is ProfilingLevel.DETAILED
    assert (config.enabled, config.auto_optimize, config.enable_monitoring) == (True, True, True)
    assert (config.sampling_rate, config.monitoring_interval) == (0.1, 1.0)
    assert config.alert_threshold == 0.8


def the_groups_are_views_of_the_flat_fields(names: Names, printed: str) -> None:
    metrics = names["metrics"]
    assert metrics.timing.wall_time_s == 1.5
    assert metrics.timing.cpu_time_s == 0.8
    assert metrics.compute.gpu_utilization_percent == 85.0
    assert metrics.bottleneck_type is BottleneckType.CPU_BOUND
    assert metrics.memory.peak_ram_mb is None  # nobody said


# ---- profilers ----


def a_configuration() -> dict[str, Any]:
    return {"config": ProfilingConfig()}


def start_and_stop_gave_metrics(names: Names, printed: str) -> None:
    metrics = names["metrics"]
    assert 0 < metrics.execution_time < 5
    assert metrics.memory_usage * 1024 <= metrics.peak_ram_mb * 1.001
    assert names["bottlenecks"] == names["profiler"].get_bottlenecks()


def busy_code_is_cpu_bound(names: Names, printed: str) -> None:
    start_and_stop_gave_metrics(names, printed)
    profiler = names["profiler"]  # the block's own code is a comment: here is some that computes
    profiler.start_profiling()
    ends = time.perf_counter() + 0.5
    while time.perf_counter() < ends:
        sum(range(1000))
    metrics = profiler.stop_profiling()
    assert profiler.get_bottlenecks()[0].kind == "cpu-bound"
    assert metrics.bottleneck_type is BottleneckType.CPU_BOUND
    assert 0 < metrics.bottleneck_severity <= 1


def gpu_figures_are_measured_or_none(names: Names, printed: str) -> None:
    start_and_stop_gave_metrics(names, printed)
    metrics = names["metrics"]
    assert metrics.gpu_usage is not None or "No GPU" in " ".join(metrics.notes)


def a_loader_and_a_function() -> dict[str, Any]:
    import torch

    class Slow(torch.utils.data.Dataset[Any]):
        def __len__(self) -> int:
            return 80

        def __getitem__(self, at: int) -> Any:
            ends = time.thread_time() + 0.002
            while time.thread_time() < ends:
                pass
            return torch.tensor([at])

    torch.manual_seed(0)
    return a_configuration() | {
        "dataloader": torch.utils.data.DataLoader(Slow(), batch_size=4, shuffle=True),
        "preprocessing_func": lambda data: data.float() / 255.0,
        "data": torch.arange(1000),
    }


def the_loader_is_limited_by_the_cpu(names: Names, printed: str) -> None:
    import torch

    (loader,) = names["profiler"].profiles
    assert loader.num_batches == 10
    assert loader.avg_batch_time >= 4 * 0.002
    (function,) = names["profiler"].preprocessing_profiles
    assert function.throughput > 0
    assert stepscope.DataLoadingBottleneck.CPU_BOUND_PREPROCESSING in loader.bottlenecks
    assert "input-cpu" in [found.kind for found in names["bottlenecks"]]
    # What the program draws next, and the order of its data, are as if nobody had looked.
    state = torch.get_rng_state()
    torch.manual_seed(0)
    assert torch.equal(state, torch.get_rng_state())


# ---- decorator and context manager ----


def a_loop() -> dict[str, Any]:
    import torch
    from torch import nn

    torch.manual_seed(0)
    model = nn.Linear(8, 1)
    return {
        "model": model,
        "dataloader": torch.utils.data.DataLoader(torch.randn(24, 8), batch_size=4),
        "optimizer": torch.optim.SGD(model.parameters(), lr=0.1),
        "criterion": nn.MSELoss(),
        "targets": torch.zeros(4, 1),
        "logger": logging.getLogger("spec"),
    }


def steps_and_epoch_were_measured(names: Names, printed: str) -> None:
    step, epoch = names["training_step"].get_metrics(), names["profiler"].metrics
    assert step.calls == 6
    assert epoch.operation == "training_epoch"
    assert 0 < step.execution_time < epoch.execution_time
    assert names["profiler"].current_metrics == epoch
    assert isinstance(names["loss"], float)


# ---- logging ----


def measured_metrics() -> dict[str, Any]:
    profiler = CPUMemoryProfiler()
    profiler.start_profiling()
    time.sleep(0.02)
    return {"metrics": profiler.stop_profiling()}


def the_figures_are_in_the_log(names: Names, printed: str) -> None:
    assert "Profiling results" in printed
    assert f"execution_time={names['metrics'].execution_time}" in printed.replace("\x1b[0m", "")


# ---- troubleshooting ----


def a_twentieth_of_the_calls_is_measured(names: Names, printed: str) -> None:
    config = names["config"]
    assert config.level is ProfilingLevel.BASIC

    @stepscope.profile_function(config)
    def step() -> None:
        pass

    for _ in range(4000):
        step()
    measured = step.get_metrics().calls  # type: ignore[attr-defined]
    assert 120 <= measured <= 280  # 200 on average; six standard deviations around it


def runs_are_kept_up_to_the_limit_and_counted_beyond(names: Names, printed: str) -> None:
    config = names["config"]
    assert (config.enable_tracemalloc, config.max_samples) == (False, 1000)

    @stepscope.profile_function(config)
    def step() -> None:
        pass

    for _ in range(3000):
        step()
    assert step.get_metrics().calls == 3000  # type: ignore[attr-defined]
    assert not tracemalloc.is_tracing()


def the_thresholds_decide_what_is_a_bottleneck(names: Names, printed: str) -> None:
    config = names["config"]
    assert (config.cpu_threshold, config.memory_threshold, config.gpu_threshold) == (90, 90, 95)
    profiler = CPUMemoryProfiler(config)
    profiler.start_profiling()
    time.sleep(0.1)  # idle: below any threshold of the CPU
    profiler.stop_profiling()
    assert not [found for found in profiler.get_bottlenecks() if found.kind == "cpu-bound"]


def alerts_are_rarer(names: Names, printed: str) -> None:
    assert names["config"].monitoring_interval == 2.0
    assert names["config"].alert_threshold == 0.9
    assert ProfilingConfig().alert_threshold < 0.9


def everything_is_logged(names: Names, printed: str) -> None:
    assert logging.getLogger().level == logging.DEBUG
    assert names["config"].level is ProfilingLevel.COMPREHENSIVE
    with stepscope.profile_context("work", names["config"]) as profiler:
        time.sleep(0.02)
    assert (profiler.metrics.execution_time or 0.0) >= 0.02


def traced_memory() -> dict[str, Any]:
    config = ProfilingConfig(enable_tracemalloc=True)
    profiler = CPUMemoryProfiler(config)
    profiler.start_profiling()
    kept = bytearray(64 * 2**20)
    metrics = profiler.stop_profiling()
    return {
        "config": config,
        "tracemalloc": tracemalloc,
        "kept": kept,
        "profiler": profiler,
        "metrics": metrics,
    }


def python_s_own_objects_are_counted(names: Names, printed: str) -> None:
    assert "Current memory: 0.06 GB\nPeak memory: 0.06 GB\n" in printed
    metrics = names["metrics"]
    assert 64 <= metrics.peak_heap_mb < 80, metrics.peak_heap_mb


CASES: dict[str, Case] = {
    "1. ProfilingConfig": Case(every_setting_is_as_given),
    "2. PerformanceMetrics": Case(the_groups_are_views_of_the_flat_fields),
    "CPUMemoryProfiler": Case(busy_code_is_cpu_bound, a_configuration),
    "GPUProfiler": Case(gpu_figures_are_measured_or_none, a_configuration),
    "DataLoadingProfiler": Case(the_loader_is_limited_by_the_cpu, a_loader_and_a_function),
    "Decorator-Based Profiling": Case(steps_and_epoch_were_measured, a_loop),
    "Structured Logging": Case(the_figures_are_in_the_log, measured_metrics),
    "1. High Profiling Overhead": Case(a_twentieth_of_the_calls_is_measured),
    "2. Memory Leaks in Profiling": Case(runs_are_kept_up_to_the_limit_and_counted_beyond),
    "3. False Positive Bottlenecks": Case(the_thresholds_decide_what_is_a_bottleneck),
    "4. Performance Monitoring Alerts": Case(alerts_are_rarer),
    "1. Profiling Debug Mode": Case(everything_is_logged),
    "3. Memory Analysis": Case(python_s_own_objects_are_counted, traced_memory),
}
