"""AdvancedProfiler: CPU, GPU and data of what runs between start and stop, and what to do."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Protocol

from stepscope.errors import NoResultsError, UsageError
from stepscope.model.finding import Finding
from stepscope.model.loading import DataLoadingProfile, PreprocessingProfile
from stepscope.model.metrics import PerformanceMetrics
from stepscope.profilers.blocks import disabled_metrics
from stepscope.profilers.config import ProfilingConfig
from stepscope.profilers.loading import DataLoadingProfiler
from stepscope.profilers.monitor import PerformanceMonitor
from stepscope.session.advanced import (
    AdvancedBlock,
    Seen,
    data_metrics,
    plain_finding,
    recommendations,
)
from stepscope.session.keep import save_here

__all__ = ["AdvancedProfiler", "generate_recommendations"]

_PARTS = ("cpu", "gpu", "data", "combined")


class AutoOptimizer(Protocol):
    """Is told what was profiled, where the configuration says auto_optimize=True."""

    def loader_profiled(self, loader: Any) -> None: ...
    def function_profiled(self, function: Callable[[Any], Any]) -> None: ...
    def profiling_stopped(self) -> None: ...


class AdvancedProfiler:
    """Everything at once. Profilers may run within each other, and be started again.

    `auto_optimize=True`: a CodeOptimizer that was made with this profiler optimises each loader and
    each function as soon as it was profiled (ask it for the result), and memory and CPUs of the
    process at the first `stop_profiling`.

    `enable_monitoring=True`: a PerformanceMonitor (`monitor`) runs from start to stop. It takes
    callbacks, and what it saw is `monitoring` in the summary.

    The source document restarts one profiler inside another; both measure what they see, so their
    times are not to be added up.
    """

    def __init__(self, config: ProfilingConfig | None = None) -> None:
        self.config = config or ProfilingConfig()
        self._block = AdvancedBlock(self.config)
        self._data = DataLoadingProfiler(self.config)
        self._told = (0, 0)  # loaders and functions in the results of an earlier stop
        self._times = 0
        self._total_s = 0.0
        self._results: dict[str, Any] | None = None
        self.seen = Seen()
        self.monitor: PerformanceMonitor | None = None
        self._make_monitor()
        self._optimizer: weakref.ref[AutoOptimizer] | None = None

    def _make_monitor(self) -> None:
        config = self.config
        if self.monitor is None and config.enabled and config.enable_monitoring:
            self.monitor = PerformanceMonitor(config)

    def start_profiling(self) -> None:
        """Begin to measure."""
        if not self.config.enabled:
            return
        if self._block.is_open:
            raise UsageError("It is profiling already: call stop_profiling() first.")
        self._make_monitor()
        if self.monitor is not None and self.config.enable_monitoring:
            self.monitor.start_monitoring()
        self._block.open()

    def stop_profiling(self) -> dict[str, Any]:
        """Since `start_profiling`: PerformanceMetrics as 'cpu', 'gpu', 'data' and 'combined';
        'bottlenecks', findings with the worst first; 'suggestions', sentences.

        'data' is what a training loop waited for its loaders. Where none ran, it is what
        `profile_dataloader` measured.
        """
        if not self._block.is_open:
            if not self.config.enabled:
                off = disabled_metrics()
                return {**dict.fromkeys(_PARTS, off), "bottlenecks": [], "suggestions": []}
            raise UsageError("It is not profiling: call start_profiling() first.")
        measured = self._block.close()
        if self.monitor is not None:
            self.monitor.stop_monitoring()
        self.seen.step = measured.step or self.seen.step
        loaders, functions = self._data.profiles, self._data.preprocessing_profiles
        found = list(measured.findings)
        found += [one for profile in loaders[self._told[0] :] for one in profile.findings]
        found += [one for profile in functions[self._told[1] :] for one in profile.findings]
        self._told = len(loaders), len(functions)
        found.sort(key=lambda one: -one.severity)
        self._results = {
            "cpu": measured.cpu,
            "gpu": measured.gpu,
            "data": data_metrics(measured.loop, loaders),
            "combined": measured.combined,
            "bottlenecks": found,
            "suggestions": _suggestions(found),
        }
        self._times += 1
        self._total_s += measured.combined.execution_time or 0.0
        self._tell("profiling_stopped")
        return dict(self._results)

    @property
    def current_metrics(self) -> PerformanceMetrics:
        """What was used since `start_profiling`, while it goes on."""
        if not self._block.is_open:
            if not self.config.enabled:
                return disabled_metrics()
            raise UsageError("It is not profiling: call start_profiling() first.")
        return self._block.so_far()

    def profile_dataloader(
        self, dataloader: Iterable[Any], num_batches: int = 10
    ) -> DataLoadingProfile:
        """How fast a loader is by itself, and what limits it. Training that was seen before counts:
        a loader that is faster than the step is no bottleneck."""
        step = self.seen.step
        profile = self._data.profile_dataloader(
            dataloader, num_batches, None if step is None else step.wall_s
        )
        self._tell("loader_profiled", dataloader)
        return profile

    def profile_preprocessing(
        self, preprocessing_func: Callable[[Any], Any], data: Any
    ) -> PreprocessingProfile:
        """What a function takes on this data, which is a sample of its input for CodeOptimizer."""
        profile = self._data.profile_preprocessing(preprocessing_func, data)
        self.seen.add_sample(preprocessing_func, data)
        self._tell("function_profiled", preprocessing_func)
        return profile

    def get_bottlenecks(self) -> list[Finding]:
        """Of the last start and stop, the worst first."""
        if self._results is None:
            if not self.config.enabled:
                return []
            raise NoResultsError("Call start_profiling() and stop_profiling() first.")
        return list(self._results["bottlenecks"])

    def get_profiling_summary(self) -> dict[str, Any]:
        """Everything that was found, as plain JSON; the figures are those of the last stop."""
        results = self._results or {}
        monitor = self.monitor
        return {
            "enabled": self.config.enabled,
            "level": self.config.level.value,
            "profiled": self._times,
            "total_time": self._total_s,
            **{part: results[part].to_dict() if results else None for part in _PARTS},
            "bottlenecks": [plain_finding(one) for one in results.get("bottlenecks", [])],
            "suggestions": list(results.get("suggestions", [])),
            "dataloaders": [one.to_dict() for one in self._data.profiles],
            "preprocessing": [one.to_dict() for one in self._data.preprocessing_profiles],
            "monitoring": None if monitor is None else monitor.get_monitoring_summary(),
        }

    def save(self, path: str | Path | None = None, name: str = "") -> Path:
        """Keep everything that this process recorded as a run, for `stepscope report`."""
        return save_here(path, name)

    def optimized_by(self, optimizer: AutoOptimizer) -> None:
        """Tell it what is profiled from now on, if the configuration says auto_optimize=True. It is
        not kept alive."""
        self._optimizer = weakref.ref(optimizer)

    def _tell(self, what: str, *about: Any) -> None:
        optimizer = None if self._optimizer is None else self._optimizer()
        if optimizer is not None and self.config.auto_optimize and self.config.enabled:
            getattr(optimizer, what)(*about)


def generate_recommendations(results: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What to do about the results of `stop_profiling`, the largest expected gain first.

    Each is plain JSON: kind, title, action, expected_speedup ([at least, at most] times as fast, or
    None where that is not known), risk, severity, location.
    """
    if "bottlenecks" not in results:
        raise UsageError("Recommendations are made of what AdvancedProfiler.stop_profiling() gave.")
    return recommendations(results["bottlenecks"])


def _suggestions(findings: Iterable[Finding]) -> list[str]:
    """One sentence each, none twice."""
    advice = (one.recommendation for one in findings)
    return list(dict.fromkeys(f"{one.title}: {one.action}" for one in advice if one is not None))
