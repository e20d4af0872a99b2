"""CPUMemoryProfiler and GPUProfiler: from start to stop, and what was in the way."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

from stepscope.errors import NoResultsError, UsageError
from stepscope.model.finding import Finding
from stepscope.model.metrics import PerformanceMetrics
from stepscope.profilers.config import ProfilingConfig
from stepscope.session.blocks import BlockProfile, Tracing
from stepscope.session.keep import save_here

__all__ = ["CPUMemoryProfiler", "GPUProfiler", "disabled_metrics"]


class _Profiler:
    """Measures what runs between `start_profiling` and `stop_profiling`, any number of times."""

    _name = ""
    _gpu = False

    def __init__(self, config: ProfilingConfig | None = None) -> None:
        self.config = config or ProfilingConfig()
        self._profile = BlockProfile(self._name, self.config, gpu=self._gpu)
        self._findings: list[Finding] | None = None
        self._tracing = Tracing()

    def start_profiling(self) -> None:
        """Begin to measure."""
        if not self.config.enabled:
            return
        if self._profile.is_open:
            raise UsageError("It is profiling already: call stop_profiling() first.")
        self._tracing.start(wanted=self.config.enable_tracemalloc)
        self._profile.open()

    def stop_profiling(self) -> PerformanceMetrics:
        """What was used since `start_profiling`."""
        if not self._profile.is_open:
            if not self.config.enabled:
                return disabled_metrics()
            raise UsageError("It is not profiling: call start_profiling() first.")
        metrics, self._findings = self._profile.close()
        if not self._findings:
            return metrics
        first = self._findings[0]
        return replace(
            metrics,
            bottleneck_type=first.bottleneck_type,
            bottleneck_severity=first.severity,
        )

    @property
    def current_metrics(self) -> PerformanceMetrics:
        """What was used since `start_profiling`, while it goes on."""
        if not self._profile.is_open:
            if not self.config.enabled:
                return disabled_metrics()
            raise UsageError("It is not profiling: call start_profiling() first.")
        return self._profile.so_far()

    def save(self, path: str | Path | None = None, name: str = "") -> Path:
        """Keep everything that this process recorded as a run, for `stepscope report`."""
        return save_here(path, name)

    def get_bottlenecks(self) -> list[Finding]:
        """What was in the way between the last start and stop, the worst first; [] for nothing."""
        if self._findings is None:
            if not self.config.enabled:
                return []
            raise NoResultsError(
                "There is nothing to judge yet: call start_profiling() and stop_profiling() first."
            )
        return list(self._findings)


class CPUMemoryProfiler(_Profiler):
    """CPU, memory, disk and network. A training loop within it is found and explained too.

    With `enable_tracemalloc` the peak of Python's own objects is measured as well, which makes
    allocations slower for as long as the profiler lives: tracemalloc stays on after
    `stop_profiling`, so that its results can be read.
    """

    _name = "cpu_memory"


class GPUProfiler(_Profiler):
    """GPUs: how busy they were, torch's peak of their memory. Without a GPU those figures are None,
    and the notes of the metrics say so."""

    _name = "gpu"
    _gpu = True


def disabled_metrics() -> PerformanceMetrics:
    """Numbers that are neither more nor less than any threshold."""
    return PerformanceMetrics(
        execution_time=math.nan,
        cpu_usage=math.nan,
        gpu_usage=math.nan,
        memory_usage=math.nan,
        notes=("Profiling is switched off (enabled=False): nothing was measured.",),
    )
