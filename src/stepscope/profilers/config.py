"""What the profilers of the specifications are told. Every default comes from stepscope.config."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from stepscope import config
from stepscope.config import Level
from stepscope.errors import UsageError

__all__ = ["ProfilingConfig", "checked_level", "checked_number"]


@dataclass(frozen=True, kw_only=True)
class ProfilingConfig:
    """Settings of the profilers; a value that makes no sense is refused with what is allowed.

    sampling_rate: how many of the calls are profiled (0.05: every 20th on average).
    alert_threshold: severity from which on a bottleneck is an alert, and callbacks are told of one.
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
    rules: Mapping[str, Any] | str | os.PathLike[str] | None = field(default=None, hash=False)
    sinks: Sequence[Mapping[str, Any]] = field(default=(), hash=False)
    alerts_dir: str | os.PathLike[str] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "level", checked_level("level", self.level))
        for one in fields(self):
            value = getattr(self, one.name)
            if one.type == "bool" and not isinstance(value, bool):
                raise UsageError(f"{one.name} is True or False, not {value!r}.")
            if one.name in _RANGES:
                low, high, what = _RANGES[one.name]
                checked_number(one.name, value, low, high, what)
        if not isinstance(self.max_samples, int):
            raise UsageError(f"max_samples is a whole number, not {self.max_samples!r}.")
        if not isinstance(self.rules, Mapping | str | os.PathLike | None):
            raise UsageError("rules is a mapping, or the path of a rules.toml.")
        sinks = self.sinks
        if not isinstance(sinks, list | tuple) or not all(isinstance(s, Mapping) for s in sinks):
            raise UsageError('sinks is a list of mappings, such as [{"type": "log"}].')
        if not isinstance(self.alerts_dir, str | os.PathLike | None):
            raise UsageError("alerts_dir is the path of a folder.")


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
