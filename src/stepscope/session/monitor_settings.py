"""What a monitor in a program goes by: its rules, and the thresholds of its configuration."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Protocol

from stepscope.config import ENV_RUN
from stepscope.errors import UsageError
from stepscope.monitor.settings import WatchSettings, watch_settings
from stepscope.session.feeding import memory_limit_bytes
from stepscope.session.watch_rules import read_rules

__all__ = ["MonitorConfig", "monitor_settings", "run_name"]

_READINGS: Final = 10  # beyond a threshold before it is told: shorter is a moment, not a state
_LONGEST_S: Final = 30.0


class MonitorConfig(Protocol):
    """What is read of a ProfilingConfig."""

    @property
    def monitoring_interval(self) -> float: ...
    @property
    def alert_threshold(self) -> float: ...
    @property
    def cpu_threshold(self) -> float: ...
    @property
    def memory_threshold(self) -> float: ...
    @property
    def gpu_threshold(self) -> float: ...
    @property
    def rules(self) -> Mapping[str, Any] | str | os.PathLike[str] | None: ...
    @property
    def sinks(self) -> Sequence[Mapping[str, Any]]: ...


def monitor_settings(config: MonitorConfig) -> WatchSettings:
    """UsageError: the rules or the sinks say something that cannot be."""
    rules = dict(_rules(config.rules))
    own = rules.get("threshold", [])
    sinks = rules.get("sink", [])
    if not isinstance(own, list | tuple) or not isinstance(sinks, list | tuple):
        return watch_settings(rules)  # which says what is wrong with it
    rules["threshold"] = [*own, *_thresholds(config)]
    rules["sink"] = [*sinks, *config.sinks]
    return watch_settings(rules)


def _rules(given: Mapping[str, Any] | str | os.PathLike[str] | None) -> Mapping[str, Any]:
    if given is None or isinstance(given, Mapping):
        return given or {}
    try:
        return read_rules(Path(given))
    except UsageError as error:
        raise UsageError(f"rules={os.fspath(given)!r}: {error}") from error


def _thresholds(config: MonitorConfig) -> list[dict[str, Any]]:
    for_s = min(_LONGEST_S, _READINGS * config.monitoring_interval)
    # Where a cgroup sets the limit, that is what runs out, and not the machine's.
    memory = "host_memory_ratio" if memory_limit_bytes() is None else "memory_ratio"
    limits = (
        ("CPUs", "host_cpu_ratio", config.cpu_threshold),
        ("memory", memory, config.memory_threshold),
        ("GPU", "gpu_busy_ratio", config.gpu_threshold),
        ("GPU memory", "gpu_memory_ratio", config.memory_threshold),
    )
    return [
        {"name": name, "metric": metric, "above": percent / 100, "for": for_s}
        for name, metric, percent in limits
        if percent < 100  # beyond all that there is nothing can be
    ]


def run_name() -> str:
    """Of the run that this process belongs to; without one, of the program."""
    run = os.environ.get(ENV_RUN)
    argv = getattr(sys, "argv", None) or [""]
    return Path(run).name if run else Path(argv[0]).stem or "python"
