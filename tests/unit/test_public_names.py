"""The public names are a promise: adding or taking one away is a decision, made here too."""

from __future__ import annotations

import subprocess
import sys

import pytest

import stepscope

PUBLIC = [
    "AdvancedProfiler",
    "BottleneckProfile",
    "BottleneckProfiler",
    "BottleneckProfilerConfig",
    "BottleneckType",
    "CPUMemoryProfiler",
    "CPUTracker",
    "CallbackPublisher",
    "CheckpointEvent",
    "CheckpointEventType",
    "CheckpointManager",
    "CheckpointMonitor",
    "CheckpointPlan",
    "CheckpointProfiler",
    "CodeOptimizer",
    "ComputeMetrics",
    "DataLoadingBottleneck",
    "DataLoadingProfile",
    "DataLoadingProfiler",
    "EventPublisher",
    "Finding",
    "FormatError",
    "GCMonitor",
    "GPUProfiler",
    "GPUTracker",
    "IOTracker",
    "InMemoryStorage",
    "LayerProfile",
    "MemoryEvent",
    "MemoryEventType",
    "MemoryMetrics",
    "MemoryProfiler",
    "MemoryStatistics",
    "MemoryThresholdExceeded",
    "MemoryTracker",
    "MissingExtraError",
    "NoResultsError",
    "OptimizationRecommendation",
    "OptimizationRecommender",
    "PerformanceMetrics",
    "PerformanceMonitor",
    "PerformanceProfiler",
    "PreprocessingProfile",
    "PreprocessingProfiler",
    "ProfilingConfig",
    "ProfilingLevel",
    "ProfilingSession",
    "ProfilingSummary",
    "Recommendation",
    "RecommendationPriority",
    "RecommendationType",
    "RecomputationEngine",
    "RecomputationThresholdExceeded",
    "RunFolderStorage",
    "RunNotFoundError",
    "Segment",
    "StepscopeError",
    "StorageBackend",
    "SystemMetrics",
    "TimingMetrics",
    "Trace",
    "UsageError",
    "__version__",
    "generate_recommendations",
    "last_run",
    "metric",
    "open_trace",
    "plan_checkpoints",
    "profile_context",
    "profile_function",
    "register_rule",
]


def test_the_public_names_are_exactly_these_and_sorted() -> None:
    assert stepscope.__all__ == PUBLIC
    assert sorted(PUBLIC) == PUBLIC
    assert dir(stepscope) == PUBLIC


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(stepscope, name) is not None


def test_a_name_that_is_not_public_is_no_attribute() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = stepscope.nonsense


def test_a_star_import_brings_the_public_names() -> None:
    program = "from stepscope import *\nprint(sorted(set(dir()) & set(__import__('sys').argv[1:])))"
    done = subprocess.run(
        [sys.executable, "-c", program, *PUBLIC], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == str(sorted(PUBLIC))
