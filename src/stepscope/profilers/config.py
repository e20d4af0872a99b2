"""What the profilers of the specifications are told. Every default comes from stepscope.config."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import Field, dataclass
from typing import Any

from stepscope import config
from stepscope.config import Level
from stepscope.errors import UsageError

__all__ = ["CheckedSettings", "ProfilingConfig", "checked_level", "checked_number"]


class CheckedSettings:
    """Base of the two configurations: each value is checked when it is given or assigned.

    Settings can be assigned at any time. A profiler reads them when it starts: at
    `start_profiling`, `start_profiling_session`, `start_monitoring`, at the entry of a context, at
    a call of `profile_dataloader` and its like, when `@profile_function` decorates. What is
    running keeps the settings that it started with; a change counts from the next start.
    """

    def __setattr__(self, name: str, value: Any) -> None:
        known: dict[str, Field[Any]] = getattr(type(self), "__dataclass_fields__")  # noqa: B009
        if name not in known:
            raise UsageError(f"{type(self).__name__} has no setting {name!r}.")
        if known[name].type == "bool" and not isinstance(value, bool):
            raise UsageError(f"{name} is True or False, not {value!r}.")
        object.__setattr__(self, name, self._checked(name, value))

    def _checked(self, name: str, value: Any) -> Any:
        """The value in its own type; UsageError: it makes no sense."""
        raise NotImplementedError


@dataclass
class ProfilingConfig(CheckedSettings):
    """Settings of the profilers; a value that makes no sense is refused with what is allowed.

    Settings can be assigned at any time; a profiler reads them when it starts, and what is running
    keeps those that it started with.

    level: how often the machine is sampled: every 5 s (production), 1 s (basic), 0.5 s (detailed)
        or 0.2 s (comprehensive). BottleneckProfiler and its like: see BottleneckProfilerConfig.
    sampling_rate: how many of the calls are profiled (0.05: every 20th on average).
    alert_threshold: severity from which on a bottleneck is an alert, and callbacks are told of one.
    enable_tracemalloc: measure the peak of Python's own objects, which makes allocations slower.
        Tracing stays on after `stop_profiling`, so that tracemalloc can be asked for its results;
        it ends with the profiler (`del profiler`), or by `tracemalloc.stop()`.
    max_samples: runs of an operation that are recorded one by one; totals stay exact beyond.
    …_threshold: percent of the resource from which on it counts as a bottleneck.
    auto_optimize: for CodeOptimizer. monitoring_interval: for PerformanceMonitor, which runs along
    with an AdvancedProfiler where enable_monitoring says so.
    rules: what is watched for besides the thresholds, as a mapping or the path of a rules.toml, in
    the form of `stepscope run --watch`. sinks: who is told, the [[sink]] tables of such a file.
    alerts_dir: a folder in which alerts wait for sinks that do not take them: the next monitor with
    that folder delivers them. None: what waits when the program ends is lost.
    """

    enabled: bool = True
    level: Level = Level.DETAILED
    sampling_rate: float = 1.0
    auto_optimize: bool = False
    enable_monitoring: bool = False
    monitoring_interval: float = config.MONITORING_INTERVAL_S
    alert_threshold: float = config.ALERT_THRESHOLD
    enable_tracemalloc: bool = False
    max_samples: int = config.MAX_SAMPLES
    cpu_threshold: float = config.CPU_THRESHOLD_PERCENT
    memory_threshold: float = config.MEMORY_THRESHOLD_PERCENT
    gpu_threshold: float = config.GPU_THRESHOLD_PERCENT
    rules: Mapping[str, Any] | str | os.PathLike[str] | None = None
    sinks: Sequence[Mapping[str, Any]] = ()
    alerts_dir: str | os.PathLike[str] | None = None

    def _checked(self, name: str, value: Any) -> Any:
        if name in _RANGES:
            low, high, what = _RANGES[name]
            checked_number(name, value, low, high, what)
        if name == "level":
            return checked_level(name, value)
        if name == "max_samples" and not isinstance(value, int):
            raise UsageError(f"max_samples is a whole number, not {value!r}.")
        if name == "rules" and not isinstance(value, Mapping | str | os.PathLike | None):
            raise UsageError("rules is a mapping, or the path of a rules.toml.")
        if name == "sinks" and not (
            isinstance(value, list | tuple) and all(isinstance(sink, Mapping) for sink in value)
        ):
            raise UsageError('sinks is a list of mappings, such as [{"type": "log"}].')
        if name == "alerts_dir" and not isinstance(value, str | os.PathLike | None):
            raise UsageError("alerts_dir is the path of a folder.")
        return value


# (more than, at most, in words)
_RANGES: dict[str, tuple[float, float, str]] = {
    "sampling_rate": (0.0, 1.0, "more than 0 and at most 1 (1: every call)"),
    "monitoring_interval": (0.0, 3600.0, "a number of seconds, more than 0 and at most 3600"),
    "alert_threshold": (0.0, 1.0, "a severity, more than 0 and at most 1"),
    "max_samples": (0, 10_000_000, "a number of samples, from 1 to 10,000,000"),
    "cpu_threshold": (0.0, 100.0, "a percentage, more than 0 and at most 100"),
    "memory_threshold": (0.0, 100.0, "a percentage, more than 0 and at most 100"),
    "gpu_threshold": (0.0, 100.0, "a percentage, more than 0 and at most 100"),
}


def checked_number(name: str, value: Any, more_than: float, at_most: float, what: str) -> float:
    """The value, if it is a number in that range; UsageError otherwise."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or math.isnan(value) or not more_than < value <= at_most:
        raise UsageError(f"{name}={value!r} is not possible: it is {what}.")
    return float(value)


def checked_level(name: str, value: Any) -> Level:
    """The level of that name; UsageError otherwise."""
    try:
        return Level(value.lower() if isinstance(value, str) else value)
    except ValueError:
        allowed = ", ".join(level.value for level in Level)
        raise UsageError(f"{name}={value!r} is not known: use one of {allowed}.") from None
