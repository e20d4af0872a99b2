"""Items of document 004 that no unit test holds; docs/specifications.md lists them all."""

from __future__ import annotations

import enum
import json
import logging
import subprocess
import sys
import time
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from stepscope import (
    BottleneckProfile,
    BottleneckProfiler,
    BottleneckProfilerConfig,
    BottleneckType,
    CPUTracker,
    DataLoadingBottleneck,
    DataLoadingProfile,
    DataLoadingProfiler,
    GPUTracker,
    IOTracker,
    MemoryTracker,
    ProfilingLevel,
    ProfilingSession,
)

pytestmark = pytest.mark.timed

WORK = BottleneckType.CPU_COMPUTATION


def burn(cpu_s: float) -> None:
    end = time.thread_time() + cpu_s
    while time.thread_time() < end:
        sum(range(1000))


# ---- configuration ----


def test_the_thresholds_start_from_those_of_the_document() -> None:
    config = BottleneckProfilerConfig()
    assert config.bottleneck_threshold == 0.05
    assert (config.memory_threshold, config.gpu_threshold) == (0.8, 0.9)
    assert config.sampling_interval == 0.1


def test_the_configuration_has_every_field_that_the_document_uses() -> None:
    names = {one.name for one in fields(BottleneckProfilerConfig)}
    assert names >= {
        "profiling_level",
        "enable_real_time_monitoring",
        "enable_memory_tracking",
        "enable_gpu_tracking",
        "batch_size_range",
        "worker_range",
        "enable_caching",
        "cache_size",
    }


def test_the_levels_are_those_of_the_document() -> None:
    assert {level.name: level.value for level in ProfilingLevel} == {
        "BASIC": "basic",
        "DETAILED": "detailed",
        "COMPREHENSIVE": "comprehensive",
        "PRODUCTION": "production",
    }


def test_the_eight_types_of_the_document_are_there() -> None:
    names = (
        "data_loading",
        "preprocessing",
        "memory_allocation",
        "gpu_transfer",
        "cpu_computation",
        "i_o_operation",
        "network_latency",
        "synchronization",
    )
    assert [BottleneckType(name).name for name in names] == [name.upper() for name in names]


def test_the_bottlenecks_of_loading_are_there() -> None:
    names = ("SLOW_DISK_IO", "INSUFFICIENT_WORKERS", "MEMORY_PRESSURE", "GPU_TRANSFER_OVERHEAD")
    assert [DataLoadingBottleneck[name].value for name in names] == [n.lower() for n in names]
    assert issubclass(DataLoadingBottleneck, enum.Enum)


# ---- sessions ----


def test_a_profiler_has_the_attributes_of_the_document() -> None:
    config = BottleneckProfilerConfig()
    profiler = BottleneckProfiler(config)
    assert profiler.config is config
    assert (profiler.current_session, profiler.bottlenecks) == (None, [])
    assert (profiler.performance_metrics, profiler.is_profiling) == ({}, False)
    trackers = (
        profiler.memory_tracker,
        profiler.gpu_tracker,
        profiler.cpu_tracker,
        profiler.io_tracker,
    )
    kinds = (MemoryTracker, GPUTracker, CPUTracker, IOTracker)
    assert all(isinstance(one, kind) for one, kind in zip(trackers, kinds, strict=True))


def test_the_logger_is_one_and_the_parts_of_the_monitoring_loop_are_not_there() -> None:
    profiler = BottleneckProfiler()
    assert isinstance(profiler.logger, logging.Logger)
    assert not hasattr(profiler, "profiling_thread")
    assert not hasattr(profiler, "stop_event")


def test_a_session_has_the_fields_of_the_document() -> None:
    profiler = BottleneckProfiler()
    session_id = profiler.start_profiling_session("complete_training")
    time.sleep(0.15)  # a sample or two of memory
    session = profiler.stop_profiling_session()
    assert isinstance(session, ProfilingSession)
    assert session.session_id == session_id
    assert session_id.startswith("complete_training_")
    assert session.end_time is not None
    assert (session.end_time - session.start_time).total_seconds() >= 0.15
    assert session.performance_metrics["total_time"] is not None
    assert all(isinstance(one, BottleneckProfile) for one in session.bottlenecks)
    assert session.memory_profile
    assert all(0 < percent <= 100 for percent in session.memory_profile.values())
    assert isinstance(session.gpu_profile, dict)


def test_sessions_in_the_same_second_have_ids_of_their_own() -> None:
    profiler = BottleneckProfiler(BottleneckProfilerConfig(profiling_level=ProfilingLevel.BASIC))
    ids = []
    for _ in range(5):
        ids.append(profiler.start_profiling_session("same"))
        profiler.stop_profiling_session()
    assert len(set(ids)) == 5


def test_a_short_operation_is_no_bottleneck() -> None:
    profiler = BottleneckProfiler(BottleneckProfilerConfig(bottleneck_threshold=0.5))
    profiler.start_profiling_session("s")
    with profiler.profile_operation("short", WORK):
        pass
    burn(0.02)
    session = profiler.stop_profiling_session()
    assert session.operations["short"].calls == 1
    assert "short" not in [one.operation_name for one in session.bottlenecks]


def test_a_type_of_the_users_own_is_a_bottleneck_of_that_type() -> None:
    tokenising = BottleneckType.register("tokenising")
    profiler = BottleneckProfiler()
    with profiler.profile_operation("tokens", tokenising):
        burn(0.02)
    found = {one.operation_name: one for one in profiler.stop_profiling_session().bottlenecks}
    assert found["tokens"].bottleneck_type is tokenising
    assert found["tokens"].confidence is None, "nothing measured speaks for or against it"


def test_the_training_loop_of_the_document_names_its_slow_part(tmp_path: Path) -> None:
    model = nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = torch.utils.data.DataLoader(torch.randn(12, 8), batch_size=4)
    config = BottleneckProfilerConfig(
        profiling_level=ProfilingLevel.COMPREHENSIVE, enable_real_time_monitoring=True
    )
    profiler = BottleneckProfiler(config)
    profiler.start_profiling_session("complete_training")
    for epoch in range(2):
        with profiler.profile_operation(f"epoch_{epoch}", BottleneckType.DATA_LOADING):
            for data in loader:
                with profiler.profile_operation("preprocessing", BottleneckType.PREPROCESSING):
                    burn(0.02)
                with profiler.profile_operation("training_step", WORK):
                    model(data).mean().backward()
                    optimizer.step()
    session = profiler.stop_profiling_session()
    summary = profiler.get_bottleneck_summary()
    assert len(summary.get("bottlenecks", [])) == len(session.bottlenecks) >= 1
    slow = next(one for one in session.bottlenecks if one.operation_name == "preprocessing")
    assert slow.frequency == 6
    assert slow.execution_time is not None
    assert slow.execution_time >= 6 * 0.02
    paths = profiler.generate_optimization_report(tmp_path)
    assert "- **preprocessing**: Severity: " in paths.markdown.read_text("utf-8")
    assert paths.png is not None
    assert paths.png.read_bytes().startswith(b"\x89PNG")
    json.dumps([summary, session.to_dict()], allow_nan=False)


# ---- loaders ----


def test_a_loader_without_workers_that_is_slow_has_too_few() -> None:
    class Slow(torch.utils.data.Dataset[Any]):
        def __len__(self) -> int:
            return 40

        def __getitem__(self, at: int) -> Any:
            time.sleep(0.03)
            return torch.tensor([at])

    loader = torch.utils.data.DataLoader(Slow(), batch_size=4)
    profile = DataLoadingProfiler().profile_data_loader(loader, num_batches=2)
    assert profile.throughput_batches_per_second is not None
    assert profile.throughput_batches_per_second < 10
    assert DataLoadingBottleneck.INSUFFICIENT_WORKERS in profile.bottlenecks
    assert DataLoadingBottleneck.SLOW_DATA_SOURCE in profile.bottlenecks
    assert DataLoadingBottleneck.SLOW_DISK_IO not in profile.bottlenecks, "no disk was read"


def test_configurations_are_those_of_the_configuration_where_none_are_given() -> None:
    config = BottleneckProfilerConfig(batch_size_range=(2, 4), worker_range=(0,))
    profiles = DataLoadingProfiler(config).profile_configuration_range(list(range(32)))
    assert [(one.batch_size, one.num_workers) for one in profiles] == [(2, 0), (4, 0)]


def test_the_score_is_samples_a_second() -> None:
    profile = DataLoadingProfile(
        throughput_batches_per_second=10.0,
        throughput_samples_per_second=40.0,
        num_workers=2,
        memory_usage_mb=1000.0,
    )
    assert DataLoadingProfiler().calculate_profile_score(profile) == 40.0


def test_basic_measures_a_loader_and_judges_nothing() -> None:
    config = BottleneckProfilerConfig(profiling_level=ProfilingLevel.BASIC)
    loader = torch.utils.data.DataLoader(torch.arange(40), batch_size=4)
    profile = DataLoadingProfiler(config).profile_data_loader(loader, num_batches=5)
    assert profile.throughput_samples_per_second
    assert (profile.bottlenecks, profile.findings, profile.suggestions) == ((), (), ())


# ---- trackers ----


def test_the_cpu_tracker_has_the_keys_of_the_document() -> None:
    stats = CPUTracker().get_current_stats()
    assert set(stats) == {"usage_percent", "count", "frequency_mhz"}
    assert stats["count"] >= 1


# ---- what it costs ----

COST = """
import resource, sys, time, torch
from stepscope import BottleneckProfiler

profiler = BottleneckProfiler()
before_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
profiler.start_profiling_session("cost")
cpu_s = time.process_time()
time.sleep(2)
cpu_s = time.process_time() - cpu_s
samples = len(profiler.memory_tracker.session_stats)
profiler.stop_profiling_session()
after_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(cpu_s / samples, (after_kib - before_kib) / 1024)
"""


@pytest.fixture(scope="module")
def cost() -> tuple[float, float]:
    """CPU seconds for each sample, and MB, of a session that samples every 0.1 s."""
    done = subprocess.run(
        [sys.executable, "-c", COST], capture_output=True, text=True, check=True, timeout=120
    )
    sample_s, grown_mb = map(float, done.stdout.split())
    return sample_s, grown_mb


def test_monitoring_takes_less_memory_than_the_document_allows(cost: tuple[float, float]) -> None:
    assert cost[1] < 50


def test_a_sample_takes_at_most_two_percent_of_the_time_between_two(
    cost: tuple[float, float],
) -> None:
    assert cost[0] < 0.02 * 0.1
