"""Tells why training is slow, where, what to change and what it will gain.

Public names are imported when they are first used: `import stepscope` costs next to nothing, which
matters because every profiled process does it.
"""

from __future__ import annotations

# Not from typing, which takes 10 ms to import; type checkers know this name.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from stepscope.checkpointing.engine import RecomputationEngine
    from stepscope.checkpointing.manager import CheckpointManager
    from stepscope.config import Level as ProfilingLevel
    from stepscope.errors import (
        FormatError,
        MissingExtraError,
        NoResultsError,
        RunNotFoundError,
        StepscopeError,
        UsageError,
    )
    from stepscope.model.bottlenecks import BottleneckProfile, ProfilingSession
    from stepscope.model.checkpoint_advice import (
        OptimizationRecommendation,
        RecommendationPriority,
        RecommendationType,
    )
    from stepscope.model.checkpoint_events import (
        CheckpointEvent,
        CheckpointEventType,
        LayerProfile,
        MemoryThresholdExceeded,
        ProfilingSummary,
        RecomputationThresholdExceeded,
    )
    from stepscope.model.checkpoint_plan import CheckpointPlan, Segment
    from stepscope.model.finding import Finding, Recommendation
    from stepscope.model.loading import (
        DataLoadingBottleneck,
        DataLoadingProfile,
        PreprocessingProfile,
    )
    from stepscope.model.memory_events import (
        EventPublisher,
        MemoryEvent,
        MemoryEventType,
        MemoryStatistics,
        StorageBackend,
    )
    from stepscope.model.metrics import (
        ComputeMetrics,
        MemoryMetrics,
        PerformanceMetrics,
        SystemMetrics,
        TimingMetrics,
    )
    from stepscope.model.trace import Trace
    from stepscope.model.types import BottleneckType
    from stepscope.monitor.registry import register_rule
    from stepscope.profilers.advanced import AdvancedProfiler, generate_recommendations
    from stepscope.profilers.blocks import CPUMemoryProfiler, GPUProfiler
    from stepscope.profilers.bottleneck import BottleneckProfiler
    from stepscope.profilers.bottleneck_config import BottleneckProfilerConfig
    from stepscope.profilers.checkpoint_monitor import CheckpointMonitor
    from stepscope.profilers.checkpoint_recommender import OptimizationRecommender
    from stepscope.profilers.checkpoints import CheckpointProfiler
    from stepscope.profilers.config import ProfilingConfig
    from stepscope.profilers.contexts import profile_context, profile_function
    from stepscope.profilers.gc_monitor import GCMonitor
    from stepscope.profilers.loading import DataLoadingProfiler
    from stepscope.profilers.memory import (
        CallbackPublisher,
        InMemoryStorage,
        MemoryProfiler,
        RunFolderStorage,
    )
    from stepscope.profilers.monitor import PerformanceMonitor
    from stepscope.profilers.optimizer import CodeOptimizer
    from stepscope.profilers.performance import PerformanceProfiler
    from stepscope.profilers.preprocessing import PreprocessingProfiler
    from stepscope.profilers.trackers import CPUTracker, GPUTracker, IOTracker, MemoryTracker
    from stepscope.session.last import last_run
    from stepscope.session.metric import metric
    from stepscope.session.planning import plan_checkpoints
    from stepscope.store.trace import open_trace

__all__ = [
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

__version__ = "0.1.0"

_HOMES = {
    "AdvancedProfiler": "stepscope.profilers.advanced:AdvancedProfiler",
    "BottleneckProfile": "stepscope.model.bottlenecks:BottleneckProfile",
    "BottleneckProfiler": "stepscope.profilers.bottleneck:BottleneckProfiler",
    "BottleneckProfilerConfig": "stepscope.profilers.bottleneck_config:BottleneckProfilerConfig",
    "BottleneckType": "stepscope.model.types:BottleneckType",
    "CPUMemoryProfiler": "stepscope.profilers.blocks:CPUMemoryProfiler",
    "CPUTracker": "stepscope.profilers.trackers:CPUTracker",
    "CallbackPublisher": "stepscope.profilers.memory:CallbackPublisher",
    "CheckpointEvent": "stepscope.model.checkpoint_events:CheckpointEvent",
    "CheckpointEventType": "stepscope.model.checkpoint_events:CheckpointEventType",
    "CheckpointManager": "stepscope.checkpointing.manager:CheckpointManager",
    "CheckpointMonitor": "stepscope.profilers.checkpoint_monitor:CheckpointMonitor",
    "CheckpointPlan": "stepscope.model.checkpoint_plan:CheckpointPlan",
    "CheckpointProfiler": "stepscope.profilers.checkpoints:CheckpointProfiler",
    "CodeOptimizer": "stepscope.profilers.optimizer:CodeOptimizer",
    "ComputeMetrics": "stepscope.model.metrics:ComputeMetrics",
    "DataLoadingBottleneck": "stepscope.model.loading:DataLoadingBottleneck",
    "DataLoadingProfile": "stepscope.model.loading:DataLoadingProfile",
    "DataLoadingProfiler": "stepscope.profilers.loading:DataLoadingProfiler",
    "EventPublisher": "stepscope.model.memory_events:EventPublisher",
    "Finding": "stepscope.model.finding:Finding",
    "FormatError": "stepscope.errors:FormatError",
    "GCMonitor": "stepscope.profilers.gc_monitor:GCMonitor",
    "GPUProfiler": "stepscope.profilers.blocks:GPUProfiler",
    "GPUTracker": "stepscope.profilers.trackers:GPUTracker",
    "IOTracker": "stepscope.profilers.trackers:IOTracker",
    "InMemoryStorage": "stepscope.profilers.memory:InMemoryStorage",
    "LayerProfile": "stepscope.model.checkpoint_events:LayerProfile",
    "MemoryEvent": "stepscope.model.memory_events:MemoryEvent",
    "MemoryEventType": "stepscope.model.memory_events:MemoryEventType",
    "MemoryMetrics": "stepscope.model.metrics:MemoryMetrics",
    "MemoryProfiler": "stepscope.profilers.memory:MemoryProfiler",
    "MemoryStatistics": "stepscope.model.memory_events:MemoryStatistics",
    "MemoryThresholdExceeded": "stepscope.model.checkpoint_events:MemoryThresholdExceeded",
    "MemoryTracker": "stepscope.profilers.trackers:MemoryTracker",
    "MissingExtraError": "stepscope.errors:MissingExtraError",
    "NoResultsError": "stepscope.errors:NoResultsError",
    "OptimizationRecommendation": "stepscope.model.checkpoint_advice:OptimizationRecommendation",
    "OptimizationRecommender": "stepscope.profilers.checkpoint_recommender:OptimizationRecommender",
    "PerformanceMetrics": "stepscope.model.metrics:PerformanceMetrics",
    "PerformanceMonitor": "stepscope.profilers.monitor:PerformanceMonitor",
    "PerformanceProfiler": "stepscope.profilers.performance:PerformanceProfiler",
    "PreprocessingProfile": "stepscope.model.loading:PreprocessingProfile",
    "PreprocessingProfiler": "stepscope.profilers.preprocessing:PreprocessingProfiler",
    "ProfilingConfig": "stepscope.profilers.config:ProfilingConfig",
    "ProfilingLevel": "stepscope.config:Level",
    "ProfilingSession": "stepscope.model.bottlenecks:ProfilingSession",
    "ProfilingSummary": "stepscope.model.checkpoint_events:ProfilingSummary",
    "Recommendation": "stepscope.model.finding:Recommendation",
    "RecommendationPriority": "stepscope.model.checkpoint_advice:RecommendationPriority",
    "RecommendationType": "stepscope.model.checkpoint_advice:RecommendationType",
    "RecomputationEngine": "stepscope.checkpointing.engine:RecomputationEngine",
    "RecomputationThresholdExceeded": (
        "stepscope.model.checkpoint_events:RecomputationThresholdExceeded"
    ),
    "RunFolderStorage": "stepscope.profilers.memory:RunFolderStorage",
    "RunNotFoundError": "stepscope.errors:RunNotFoundError",
    "Segment": "stepscope.model.checkpoint_plan:Segment",
    "StepscopeError": "stepscope.errors:StepscopeError",
    "StorageBackend": "stepscope.model.memory_events:StorageBackend",
    "SystemMetrics": "stepscope.model.metrics:SystemMetrics",
    "TimingMetrics": "stepscope.model.metrics:TimingMetrics",
    "Trace": "stepscope.model.trace:Trace",
    "UsageError": "stepscope.errors:UsageError",
    "generate_recommendations": "stepscope.profilers.advanced:generate_recommendations",
    "last_run": "stepscope.session.last:last_run",
    "metric": "stepscope.session.metric:metric",
    "open_trace": "stepscope.store.trace:open_trace",
    "plan_checkpoints": "stepscope.session.planning:plan_checkpoints",
    "profile_context": "stepscope.profilers.contexts:profile_context",
    "profile_function": "stepscope.profilers.contexts:profile_function",
    "register_rule": "stepscope.monitor.registry:register_rule",
}


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    module, _, attribute = home.partition(":")
    value = globals()[name] = getattr(import_module(module), attribute)
    return value


def __dir__() -> list[str]:
    return __all__


def load_ipython_extension(shell: object) -> None:
    """`%load_ext stepscope`: gives `%%stepscope` and `%stepscope`."""
    from stepscope.integrations.jupyter import load_ipython_extension as load

    load(shell)


def unload_ipython_extension(shell: object) -> None:
    """`%unload_ext stepscope`."""
    from stepscope.integrations.jupyter import unload_ipython_extension as unload

    unload(shell)
