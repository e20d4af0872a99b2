"""Tells why training is slow, where, what to change and what it will gain.

Public names are imported when they are first used: `import stepscope` costs next to nothing, which
matters because every profiled process does it.
"""

from __future__ import annotations

# Not from typing, which takes 10 ms to import; type checkers know this name.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from stepscope.config import Level as ProfilingLevel
    from stepscope.errors import (
        FormatError,
        MissingExtraError,
        NoResultsError,
        RunNotFoundError,
        StepscopeError,
        UsageError,
    )
    from stepscope.model.finding import Finding, Recommendation
    from stepscope.model.kinds import BottleneckType
    from stepscope.model.metrics import (
        ComputeMetrics,
        MemoryMetrics,
        PerformanceMetrics,
        SystemMetrics,
        TimingMetrics,
    )
    from stepscope.model.trace import Trace
    from stepscope.profilers.blocks import CPUMemoryProfiler, GPUProfiler
    from stepscope.profilers.config import ProfilingConfig
    from stepscope.profilers.contexts import profile_context, profile_function
    from stepscope.profilers.performance import PerformanceProfiler
    from stepscope.session.last import last_run
    from stepscope.store.trace import open_trace

__all__ = [
    "BottleneckType",
    "CPUMemoryProfiler",
    "ComputeMetrics",
    "Finding",
    "FormatError",
    "GPUProfiler",
    "MemoryMetrics",
    "MissingExtraError",
    "NoResultsError",
    "PerformanceMetrics",
    "PerformanceProfiler",
    "ProfilingConfig",
    "ProfilingLevel",
    "Recommendation",
    "RunNotFoundError",
    "StepscopeError",
    "SystemMetrics",
    "TimingMetrics",
    "Trace",
    "UsageError",
    "__version__",
    "last_run",
    "open_trace",
    "profile_context",
    "profile_function",
]

__version__ = "0.1.0"

_HOMES = {
    "BottleneckType": "stepscope.model.kinds:BottleneckType",
    "CPUMemoryProfiler": "stepscope.profilers.blocks:CPUMemoryProfiler",
    "ComputeMetrics": "stepscope.model.metrics:ComputeMetrics",
    "Finding": "stepscope.model.finding:Finding",
    "FormatError": "stepscope.errors:FormatError",
    "GPUProfiler": "stepscope.profilers.blocks:GPUProfiler",
    "MemoryMetrics": "stepscope.model.metrics:MemoryMetrics",
    "MissingExtraError": "stepscope.errors:MissingExtraError",
    "NoResultsError": "stepscope.errors:NoResultsError",
    "PerformanceMetrics": "stepscope.model.metrics:PerformanceMetrics",
    "PerformanceProfiler": "stepscope.profilers.performance:PerformanceProfiler",
    "ProfilingConfig": "stepscope.profilers.config:ProfilingConfig",
    "ProfilingLevel": "stepscope.config:Level",
    "Recommendation": "stepscope.model.finding:Recommendation",
    "RunNotFoundError": "stepscope.errors:RunNotFoundError",
    "StepscopeError": "stepscope.errors:StepscopeError",
    "SystemMetrics": "stepscope.model.metrics:SystemMetrics",
    "TimingMetrics": "stepscope.model.metrics:TimingMetrics",
    "Trace": "stepscope.model.trace:Trace",
    "UsageError": "stepscope.errors:UsageError",
    "last_run": "stepscope.session.last:last_run",
    "open_trace": "stepscope.store.trace:open_trace",
    "profile_context": "stepscope.profilers.contexts:profile_context",
    "profile_function": "stepscope.profilers.contexts:profile_function",
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
