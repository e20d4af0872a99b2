"""Items of document 003 that no unit test holds; docs/specifications.md lists them all."""

from __future__ import annotations

import json
import logging
import math
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import nn

from stepscope import (
    AdvancedProfiler,
    BottleneckType,
    CodeOptimizer,
    CPUMemoryProfiler,
    DataLoadingProfiler,
    PerformanceMetrics,
    PerformanceMonitor,
    ProfilingConfig,
    ProfilingLevel,
    generate_recommendations,
    metric,
    profile_context,
    profile_function,
)
from stepscope.analyze.block import Thresholds, block_findings
from stepscope.analyze.operations import OperationUse
from stepscope.analyze.resources import ProcessUse, Resources
from stepscope.model.finding import Finding

pytestmark = pytest.mark.timed

S = 1_000_000_000


def burn(cpu_s: float) -> None:
    end = time.thread_time() + cpu_s
    while time.thread_time() < end:
        sum(range(1000))


# ---- configuration and metrics ----


def test_the_configuration_takes_the_settings_of_the_overview() -> None:
    config = ProfilingConfig(
        enabled=True,
        level=ProfilingLevel.DETAILED,
        sampling_rate=0.1,
        auto_optimize=True,
        enable_monitoring=True,
        monitoring_interval=1.0,
        alert_threshold=0.8,
    )
    assert (config.sampling_rate, config.monitoring_interval) == (0.1, 1.0)
    assert (config.auto_optimize, config.enable_monitoring, config.alert_threshold) == (
        True,
        True,
        0.8,
    )


def test_the_configuration_takes_the_settings_against_memory_growth() -> None:
    config = ProfilingConfig(enable_tracemalloc=False, max_samples=1000)
    assert (config.enable_tracemalloc, config.max_samples) == (False, 1000)


def test_the_configuration_takes_thresholds_in_percent() -> None:
    config = ProfilingConfig(cpu_threshold=90.0, memory_threshold=90.0, gpu_threshold=95.0)
    assert (config.cpu_threshold, config.memory_threshold, config.gpu_threshold) == (90, 90, 95)


def test_the_configuration_takes_the_settings_against_overhead() -> None:
    config = ProfilingConfig(level=ProfilingLevel.BASIC, sampling_rate=0.05)
    assert (config.level, config.sampling_rate) == (ProfilingLevel.BASIC, 0.05)


def test_metrics_are_constructed_with_the_flat_fields_of_the_document() -> None:
    metrics = PerformanceMetrics(
        execution_time=1.5,
        cpu_time=0.8,
        gpu_time=0.7,
        cpu_usage=75.0,
        memory_usage=4.2,
        gpu_usage=85.0,
        bottleneck_type=BottleneckType.CPU_BOUND,
        bottleneck_severity=0.8,
    )
    assert metrics.timing.wall_time_s == 1.5
    assert metrics.compute.gpu_utilization_percent == 85.0
    assert metrics.bottleneck_type is BottleneckType.CPU_BOUND


# ---- what is judged ----

BUSY_PROGRAM = """
import sys, time
from stepscope import BottleneckType, CPUMemoryProfiler, ProfilingConfig

profiler = CPUMemoryProfiler(ProfilingConfig())
profiler.start_profiling()
end = time.perf_counter() + 0.6
while time.perf_counter() < end:
    sum(range(1000))
metrics = profiler.stop_profiling()
first = profiler.get_bottlenecks()[0]
assert first.bottleneck_type is metrics.bottleneck_type is BottleneckType.CPU_BOUND, first
assert first.share > 0.8, first
"""


@pytest.fixture
def busy_machine() -> Iterator[None]:
    """Other programs that want every CPU twice."""
    others = [
        subprocess.Popen([sys.executable, "-c", "while True: pass"])
        for _ in range(2 * len(os.sched_getaffinity(0)))
    ]
    yield
    for other in others:
        other.kill()
        other.wait()


def test_a_block_that_computes_is_cpu_bound_on_a_busy_machine(busy_machine: None) -> None:
    subprocess.run([sys.executable, "-c", BUSY_PROGRAM], check=True, timeout=120)


def test_severity_and_confidence_grow_with_the_load() -> None:
    limits = Thresholds(cpu=80.0, memory=80.0, gpu=90.0)
    found = [
        block_findings(OperationUse("1/x", wall_ns=S, user_ns=round(share * S)), limits)[0]
        for share in (0.8, 0.9, 1.0)
    ]
    assert [one.severity for one in found] == [pytest.approx(0.7 + 0.3 * x / 8) for x in (6, 7, 8)]
    assert [one.confidence for one in found] == [pytest.approx(x) for x in (0.6, 0.8, 1.0)]


def test_the_cpu_threshold_decides_what_is_a_bottleneck() -> None:
    use = OperationUse("1/x", wall_ns=S, user_ns=S // 2)
    low, high = (Thresholds(cpu=cpu, memory=80.0, gpu=90.0) for cpu in (10.0, 100.0))
    assert [one.kind for one in block_findings(use, low)] == ["cpu-bound"]
    assert block_findings(use, high) == []


def test_a_memory_threshold_of_one_percent_is_passed() -> None:
    profiler = CPUMemoryProfiler(ProfilingConfig(memory_threshold=1))
    profiler.start_profiling()
    profiler.stop_profiling()
    assert "memory-pressure" in [one.kind for one in profiler.get_bottlenecks()]


def test_the_expected_gain_follows_the_load() -> None:
    gains = []
    for share in (0.2, 0.4):
        found = Finding("gc", "garbage collection", share, severity=0.5, confidence=0.9)
        (advice,) = generate_recommendations({"bottlenecks": [found]})
        gains.append(advice["expected_speedup"])
    (few, some), (more, most) = gains
    assert 1.0 < few < some < 1.4  # at most 1 / 0.8, and the doubt of a measured share
    assert some < most < 1.9
    assert more > few


def test_a_gain_that_nobody_measured_is_unknown_and_its_bound_follows_the_load() -> None:
    limits = Thresholds(cpu=100.0, memory=100.0, gpu=100.0)
    bounds = []
    for delay in (0.4, 0.8):
        waiting = Resources(program=ProcessUse(1, run_delay_cores=delay))
        use = OperationUse("1/x", wall_ns=S, user_ns=S // 5, resources=waiting)
        found = block_findings(use, limits)[-1:]
        (advice,) = generate_recommendations({"bottlenecks": found})
        assert advice["expected_speedup"] is None
        bounds.append(found[0].max_speedup or 0.0)
    assert bounds[1] > 2 * bounds[0]


# ---- loaders ----


def test_a_loader_and_a_function_are_profiled_with_a_profiling_configuration() -> None:
    profiler = DataLoadingProfiler(ProfilingConfig())
    loader = torch.utils.data.DataLoader(torch.arange(80), batch_size=4)
    profiler.profile_dataloader(loader, num_batches=10)
    profiler.profile_preprocessing(lambda data: data.float() / 255.0, torch.arange(100))
    assert profiler.profiles[0].num_batches == 10
    assert profiler.preprocessing_profiles[0].num_iterations == 10
    assert isinstance(profiler.get_bottlenecks(), list)


# ---- monitoring ----


def test_the_alert_handler_of_the_document_is_told_by_severity() -> None:
    handled: list[str] = []

    async def performance_alert_handler(alert: Any) -> None:
        if alert["severity"] > 0.9:
            handled.append("critical")
        elif alert["severity"] > 0.7:
            handled.append("warning")
        else:
            handled.append(f"info: {alert['message']}")

    rules = {"threshold": [{"metric": "tokens", "above": 1, "severity": 0.85}]}
    config = ProfilingConfig(monitoring_interval=0.05, alert_threshold=0.5, rules=rules)
    monitor = PerformanceMonitor(config)
    monitor.add_alert_callback(performance_alert_handler)
    with monitor:
        metric("tokens", 5.0)
        monitor.get_monitoring_summary()
    assert handled == ["warning"]


# ---- decorator and context manager ----


def test_functions_and_blocks_are_measured_and_can_be_asked_meanwhile() -> None:
    @profile_function()
    def training_step() -> int:
        return sum(range(1000))

    with profile_context("training_epoch") as profiler:
        for _ in range(5):
            training_step()
            assert (profiler.current_metrics.cpu_usage or 0.0) <= 100
    assert training_step.get_metrics().calls == 5  # type: ignore[attr-defined]
    assert profiler.metrics.operation == "training_epoch"


def test_what_is_asked_within_a_block_grows_with_it() -> None:
    with profile_context("block") as profiler:
        first = profiler.current_metrics
        while (later := profiler.current_metrics) == first:
            burn(0.05)  # it is measured anew after 50 ms, or a hundred times what that takes
    assert first.cpu_time is not None
    assert later.cpu_time is not None
    assert later.cpu_time >= first.cpu_time + 0.05


def test_a_twentieth_of_the_calls_is_measured_at_that_sampling_rate() -> None:
    @profile_function(ProfilingConfig(sampling_rate=0.05))
    def step() -> None:
        pass

    for _ in range(4000):
        step()
    assert 120 <= step.get_metrics().calls <= 280  # type: ignore[attr-defined]


def test_calls_beyond_max_samples_are_counted() -> None:
    @profile_function(ProfilingConfig(max_samples=1000))
    def step() -> None:
        pass

    for _ in range(3000):
        step()
    assert step.get_metrics().calls == 3000  # type: ignore[attr-defined]


# ---- logging and reports ----


def test_the_figures_of_the_logging_snippet_are_there(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    config = ProfilingConfig(enabled=True, level=ProfilingLevel.COMPREHENSIVE)
    with profile_context("work", config) as profiler:
        burn(0.01)
    metrics = profiler.metrics
    figures = {
        "execution_time": metrics.execution_time,
        "cpu_usage": metrics.cpu_usage,
        "memory_usage": metrics.memory_usage,
        "bottleneck_type": metrics.bottleneck_type.value if metrics.bottleneck_type else None,
        "bottleneck_severity": metrics.bottleneck_severity,
    }
    logging.getLogger("spec").info("Profiling results %s", json.dumps(figures, allow_nan=False))
    assert f'"execution_time": {metrics.execution_time}' in caplog.text


@pytest.mark.parametrize("enabled", [True, False])
def test_the_performance_report_is_strict_json(enabled: bool) -> None:
    config = ProfilingConfig(enabled=enabled)
    profiler, monitor = AdvancedProfiler(config), PerformanceMonitor(config)
    optimizer = CodeOptimizer(profiler)
    monitor.start_monitoring()
    profiler.start_profiling()
    burn(0.01)
    results = profiler.stop_profiling()
    monitor.stop_monitoring()
    report = {
        "summary": profiler.get_profiling_summary(),
        "optimizations": optimizer.get_optimization_report(),
        "monitoring": monitor.get_monitoring_summary(),
        "recommendations": generate_recommendations(results),
        "parts": [results[part].to_dict() for part in ("cpu", "gpu", "data", "combined")],
    }
    assert json.loads(json.dumps(report, allow_nan=False)) == report
    assert (results["cpu"].to_dict()["cpu_usage"] is None) == (not enabled)


def test_metrics_that_are_no_numbers_are_null_in_their_dictionary() -> None:
    metrics = PerformanceMetrics(cpu_usage=math.nan, execution_time=math.inf)
    saved = metrics.to_dict()
    assert (saved["cpu_usage"], saved["execution_time"]) == (None, None)
    assert saved["compute"]["cpu_utilization_percent"] is None


# ---- training ----


def train_epoch(model: nn.Module, steps: int) -> list[float]:
    """With mixed precision on the CPU."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for _ in range(steps):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = model(torch.randn(4, 8)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def test_epochs_of_mixed_precision_are_profiled_one_by_one() -> None:
    profiler = AdvancedProfiler(ProfilingConfig(enabled=True))
    model = nn.Linear(8, 1)
    for _ in range(2):
        profiler.start_profiling()
        losses = train_epoch(model, steps=3)
        results = profiler.stop_profiling()
        assert len(losses) == 3
        assert results["combined"].execution_time > 0
        assert results["combined"].cpu_usage is not None
        assert isinstance(results["bottlenecks"], list)
