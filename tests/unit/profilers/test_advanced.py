from __future__ import annotations

import json
import tracemalloc
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader

from stepscope import (
    AdvancedProfiler,
    Finding,
    NoResultsError,
    PerformanceMetrics,
    ProfilingConfig,
    UsageError,
    generate_recommendations,
)
from stepscope.model.finding import Location, Recommendation

PARTS = ("cpu", "gpu", "data", "combined")


def train(steps: int = 6) -> None:
    model = nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for batch in DataLoader(torch.randn(4 * steps, 8), batch_size=4):
        optimizer.zero_grad()
        model(batch).sum().backward()
        optimizer.step()


def test_a_training_is_seen_from_all_sides() -> None:
    profiler = AdvancedProfiler()
    profiler.start_profiling()
    train(steps=6)
    results = profiler.stop_profiling()
    assert set(results) == {*PARTS, "bottlenecks", "suggestions"}
    assert all(isinstance(results[part], PerformanceMetrics) for part in PARTS)
    combined, data = results["combined"], results["data"]
    assert data.calls == 6, "batches that the loop waited for"
    assert 0 < data.execution_time < combined.execution_time
    assert "waited" in data.notes[0]
    assert results["cpu"].cpu_usage == combined.cpu_usage
    assert all(isinstance(one, Finding) for one in results["bottlenecks"])
    assert all(isinstance(one, str) for one in results["suggestions"])
    assert profiler.get_bottlenecks() == results["bottlenecks"]
    assert profiler.seen.step is not None
    assert 0 < profiler.seen.step.wall_s < combined.execution_time


def test_without_a_gpu_its_figures_are_none_and_not_zero() -> None:
    profiler = AdvancedProfiler()
    profiler.start_profiling()
    gpu = profiler.stop_profiling()["gpu"]
    if not torch.cuda.is_available():
        assert (gpu.gpu_usage, gpu.gpu_time, gpu.peak_gpu_mb) == (None, None, None)
        assert any("GPU" in note for note in gpu.notes)
    assert gpu.to_dict()["operation"] == "gpu"


def test_without_a_loop_or_a_loader_there_is_no_data_and_it_says_so() -> None:
    profiler = AdvancedProfiler()
    profiler.start_profiling()
    data = profiler.stop_profiling()["data"]
    assert data.execution_time is None
    assert "No training loop ran and no loader was profiled" in data.notes[0]


def test_without_a_loop_data_is_what_the_profiled_loader_took() -> None:
    profiler = AdvancedProfiler()
    profile = profiler.profile_dataloader(DataLoader(torch.randn(80, 2), batch_size=4), 10)
    profiler.start_profiling()
    data = profiler.stop_profiling()["data"]
    assert profile.avg_batch_time is not None
    assert data.calls == 10
    assert data.execution_time == pytest.approx(10 * profile.avg_batch_time)


def test_profilers_run_within_each_other_and_again() -> None:
    outer, inner = AdvancedProfiler(), AdvancedProfiler()
    outer.start_profiling()
    for steps in (2, 3):
        inner.start_profiling()
        train(steps)
        assert inner.stop_profiling()["data"].calls == steps
    assert outer.stop_profiling()["data"].calls == 5
    assert inner.get_profiling_summary()["profiled"] == 2


def test_python_s_own_objects_are_counted_where_that_is_wished() -> None:
    profiler = AdvancedProfiler(ProfilingConfig(enable_tracemalloc=True))
    profiler.start_profiling()
    kept = bytearray(8 * 2**20)
    metrics = profiler.stop_profiling()["combined"]
    assert metrics.peak_heap_mb is not None
    assert metrics.peak_heap_mb >= len(kept) / 2**20
    current, peak = tracemalloc.get_traced_memory()
    assert peak >= current >= len(kept), "it can be asked after stop_profiling()"
    del profiler
    assert not tracemalloc.is_tracing()


def test_the_summary_is_plain_json() -> None:
    profiler = AdvancedProfiler()
    assert profiler.get_profiling_summary()["combined"] is None, "nothing was profiled yet"
    profiler.profile_dataloader(DataLoader(torch.randn(40, 2), batch_size=4))
    profiler.profile_preprocessing(lambda data: data * 2, torch.ones(3))
    profiler.start_profiling()
    assert profiler.current_metrics.execution_time is not None
    train()
    profiler.stop_profiling()
    summary = json.loads(json.dumps(profiler.get_profiling_summary(), allow_nan=False))
    assert summary["combined"]["execution_time"] > 0
    assert len(summary["dataloaders"]) == 1
    assert len(summary["preprocessing"]) == 1
    assert summary["bottlenecks"][0]["kind"]


def test_calls_in_the_wrong_order_are_refused() -> None:
    profiler = AdvancedProfiler()
    with pytest.raises(UsageError, match="not profiling"):
        profiler.stop_profiling()
    with pytest.raises(UsageError, match="not profiling"):
        _ = profiler.current_metrics
    with pytest.raises(NoResultsError):
        profiler.get_bottlenecks()
    profiler.start_profiling()
    with pytest.raises(UsageError, match="already"):
        profiler.start_profiling()
    profiler.stop_profiling()


def test_switched_off_it_gives_the_same_shape_of_results() -> None:
    profiler = AdvancedProfiler(ProfilingConfig(enabled=False))
    profiler.start_profiling()
    results = profiler.stop_profiling()
    assert results["bottlenecks"] == results["suggestions"] == profiler.get_bottlenecks() == []
    assert "switched off" in results["combined"].notes[0]
    assert generate_recommendations(results) == []
    json.dumps(profiler.get_profiling_summary(), allow_nan=False)


def finding(kind: str, speedup: tuple[float, float] | None, severity: float = 0.5) -> Finding:
    advice = Recommendation(f"fix {kind}", f"do it for {kind}", speedup)
    where = Location(file="train.py", line=3)
    return Finding(kind, kind, 0.5, severity, 0.9, location=where, recommendation=advice)


def test_recommendations_come_by_the_gain_that_is_expected() -> None:
    found = [finding("gc", (1.0, 1.1)), finding("compute", None), finding("input-cpu", (1.5, 3.0))]
    advice = generate_recommendations({"bottlenecks": found})
    assert [one["kind"] for one in advice] == ["input-cpu", "gc", "compute"]
    assert advice[0] == {
        "kind": "input-cpu",
        "title": "fix input-cpu",
        "action": "do it for input-cpu",
        "expected_speedup": [1.5, 3.0],
        "risk": "",
        "severity": 0.5,
        "location": {"file": "train.py", "line": 3},
    }
    json.dumps(advice, allow_nan=False)


def test_a_finding_without_advice_gets_that_of_the_catalogue() -> None:
    bare = Finding("compute", "it computes", 0.9, 0.8, 0.9)
    (advice,) = generate_recommendations({"bottlenecks": [bare]})
    assert "cheaper computation" in advice["title"]


def test_recommendations_need_results() -> None:
    with pytest.raises(UsageError, match="stop_profiling"):
        generate_recommendations({})


class Told:
    """In the place of a CodeOptimizer."""

    def __init__(self) -> None:
        self.heard: list[Any] = []

    def loader_profiled(self, loader: Any) -> None:
        self.heard.append(loader)

    def function_profiled(self, function: Any) -> None:
        self.heard.append(function)

    def profiling_stopped(self) -> None:
        self.heard.append("stopped")


@pytest.mark.parametrize("auto", [True, False])
def test_an_optimizer_is_told_what_was_profiled_where_that_is_wished(auto: bool) -> None:
    profiler, told = AdvancedProfiler(ProfilingConfig(auto_optimize=auto)), Told()
    profiler.optimized_by(told)
    loader = DataLoader(torch.randn(40, 2), batch_size=4)
    profiler.profile_dataloader(loader, 5)
    profiler.profile_preprocessing(str.upper, "a")
    profiler.start_profiling()
    profiler.stop_profiling()
    assert told.heard == ([loader, str.upper, "stopped"] if auto else [])


def test_a_monitor_runs_along_where_that_is_wanted() -> None:
    profiler = AdvancedProfiler(ProfilingConfig(enable_monitoring=True, monitoring_interval=0.05))
    assert profiler.monitor is not None
    for _ in range(2):
        profiler.start_profiling()
        assert profiler.monitor.is_monitoring
        profiler.stop_profiling()
        assert not profiler.monitor.is_monitoring
    summary = json.loads(json.dumps(profiler.get_profiling_summary(), allow_nan=False))
    assert summary["monitoring"]["avg_memory_usage"] > 0
    assert AdvancedProfiler().monitor is None
    assert AdvancedProfiler(ProfilingConfig(enabled=False, enable_monitoring=True)).monitor is None
