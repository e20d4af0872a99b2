"""What BottleneckProfiler, DataLoadingProfiler and PreprocessingProfiler are told."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stepscope import config
from stepscope.config import Level
from stepscope.errors import UsageError
from stepscope.profilers.config import (
    CheckedSettings,
    ProfilingConfig,
    checked_level,
    checked_number,
)

__all__ = ["AnyConfig", "BottleneckProfilerConfig", "Configured"]


@dataclass(kw_only=True)
class BottleneckProfilerConfig(CheckedSettings):
    """Settings; a value that makes no sense is refused with what is allowed.

    Settings can be assigned at any time; a profiler reads them when it starts, and what is running
    keeps those that it started with.

    profiling_level: what is collected, how often, and what is made of it.
        production: times, CPU and memory of the session and of each operation, and bottlenecks
            among them; the machine is sampled once in 5 s at most. torch is left alone.
        basic: times, CPU and memory only, sampled once a second at most; nothing is judged.
        detailed: bottlenecks too. torch's loaders, modules and optimizers are seen, so that a
            training loop is judged; sampled every `sampling_interval`.
        comprehensive: stacks are sampled too (1,000 a second while an operation runs), so that a
            bottleneck names the line that its time goes to.
    enable_real_time_monitoring: watch the thresholds while the session runs, not only at its end.
    enable_…_tracking: whether figures of that resource are judged and shown.
    bottleneck_threshold: share of the session from which on an operation is a bottleneck.
    memory_threshold, gpu_threshold: share of the machine's and of a GPU's memory, 0 to 1.
        (ProfilingConfig has the same thresholds in percent; both come from stepscope.config.)
    sampling_interval: seconds between two samples while a session runs; the levels production and
        basic sample more rarely.
    output_directory: where reports go.
    batch_size_range, worker_range: what is tried where nothing else is said.
    enable_caching, cache_size: whether PreprocessingProfiler keeps results, and how many.
    """

    enabled: bool = True
    profiling_level: Level = Level.DETAILED
    enable_real_time_monitoring: bool = True
    enable_memory_tracking: bool = True
    enable_gpu_tracking: bool = True
    enable_cpu_tracking: bool = True
    enable_io_tracking: bool = True
    bottleneck_threshold: float = config.BOTTLENECK_THRESHOLD
    memory_threshold: float = config.MEMORY_THRESHOLD_PERCENT / 100
    gpu_threshold: float = config.GPU_THRESHOLD_PERCENT / 100
    sampling_interval: float = config.SAMPLING_INTERVAL_S
    output_directory: str | os.PathLike[str] = config.REPORTS_FOLDER
    batch_size_range: tuple[int, ...] = config.BATCH_SIZES
    worker_range: tuple[int, ...] = config.WORKER_COUNTS
    enable_caching: bool = False
    cache_size: int = config.CACHE_SIZE
    max_samples: int = config.MAX_SAMPLES

    def _checked(self, name: str, value: Any) -> Any:
        if name == "profiling_level":
            return checked_level(name, value)
        if name in ("bottleneck_threshold", "memory_threshold", "gpu_threshold"):
            _checked_share(name, value)
        if name == "sampling_interval":
            seconds = "a number of seconds, more than 0 and at most 3600"
            checked_number(name, value, 0.0, 3600.0, seconds)
        if name == "batch_size_range":
            return _counts(name, value, 1)
        if name == "worker_range":
            return _counts(name, value, 0)
        if name in ("cache_size", "max_samples"):
            _counts(name, [value], 1)
        if name == "output_directory" and not isinstance(value, str | os.PathLike):
            raise UsageError(f"output_directory is a path, not {value!r}.")
        return value

    @property
    def folder(self) -> Path:
        return Path(self.output_directory)

    @property
    def interval_s(self) -> float:
        """Time between two samples, as the level has it."""
        return max(self.sampling_interval, self.profiling_level.depth.least_interval_s)

    # What the engine reads of a ProfilingConfig, in its units.

    @property
    def percents(self) -> ProfilingConfig:
        """The same as a ProfilingConfig, whose thresholds are percentages."""
        return ProfilingConfig(
            enabled=self.enabled,
            level=self.profiling_level,
            max_samples=self.max_samples,
            memory_threshold=self.memory_threshold * 100,
            gpu_threshold=self.gpu_threshold * 100,
        )

    @property
    def thresholds(self) -> tuple[float, float, float]:
        """Percent of CPU, memory and GPU from which on they are named."""
        percents = self.percents
        return percents.cpu_threshold, percents.memory_threshold, percents.gpu_threshold

    @classmethod
    def of(cls, given: AnyConfig | None) -> BottleneckProfilerConfig:
        """From whichever of the two; what a ProfilingConfig does not say is the default."""
        if given is None:
            return cls()
        if isinstance(given, cls):
            return given
        if not isinstance(given, ProfilingConfig):
            raise UsageError(
                f"The configuration is a BottleneckProfilerConfig or a ProfilingConfig, "
                f"not {given!r}."
            )
        return cls(
            enabled=given.enabled,
            profiling_level=given.level,
            memory_threshold=given.memory_threshold / 100,
            gpu_threshold=given.gpu_threshold / 100,
            max_samples=given.max_samples,
        )


AnyConfig = BottleneckProfilerConfig | ProfilingConfig


class Configured:
    """A profiler with a configuration of either kind; `config` is always a
    BottleneckProfilerConfig, made anew where a ProfilingConfig was given."""

    def __init__(self, config: AnyConfig | None) -> None:
        self._given = BottleneckProfilerConfig() if config is None else config
        BottleneckProfilerConfig.of(self._given)  # refuses what is none

    @property
    def config(self) -> BottleneckProfilerConfig:
        return BottleneckProfilerConfig.of(self._given)


def _checked_share(name: str, value: Any) -> None:
    percent = isinstance(value, int | float) and 1 < value <= 100
    hint = f"; for {value:g} % write {value / 100:g}" if percent else ""
    checked_number(name, value, 0.0, 1.0, f"a share, more than 0 and at most 1{hint}")


def _counts(name: str, values: Any, least: int) -> tuple[int, ...]:
    given = list(values) if isinstance(values, Iterable) and not isinstance(values, str) else []
    wrong = [one for one in given if isinstance(one, bool) or not isinstance(one, int)]
    if not given or wrong or min(given) < least:
        raise UsageError(f"{name}={values!r} is not possible: whole numbers from {least} on.")
    return tuple(given)
