"""What a monitor in a program saw, as plain JSON in the units of the specification."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from itertools import islice
from typing import Any, Final, NamedTuple

from stepscope.collect.cpus import usable_cpus
from stepscope.collect.own_memory import rss_bytes
from stepscope.model.alert import Alert
from stepscope.model.metric_table import METRICS
from stepscope.model.strict_json import strict_json
from stepscope.monitor.core import Monitor
from stepscope.monitor.series import MetricSummary, SeriesKey

__all__ = ["Watched", "monitoring_summary", "nothing_measured"]

_GB: Final = 1 << 30
_FEW: Final = 3  # readings, below which the clocks of the process tell more
_RECENT_ALERTS: Final = 20
_SAID_ELSEWHERE: Final = frozenset({"alerts_total", "steps_total"})


class Watched(NamedTuple):
    """From when to when, and what CPU time this process and its ended children took by then."""

    start_ns: int = 0
    end_ns: int = 0
    cpu_start_ns: int = 0
    cpu_end_ns: int = 0

    @property
    def seconds(self) -> float:
        return (self.end_ns - self.start_ns) / 1e9

    @property
    def cpus(self) -> float | None:
        """That this process kept busy; None: no time has passed."""
        if self.end_ns <= self.start_ns:
            return None
        return (self.cpu_end_ns - self.cpu_start_ns) / (self.end_ns - self.start_ns)


def nothing_measured(interval_s: float) -> dict[str, Any]:
    """The same keys where it was never started."""
    return _figures({}, Watched()) | {
        "monitoring_interval": interval_s,
        "steps": 0,
        "alert_count": 0,
        "open_alerts": [],
        "alerts": [],
        "metrics": {},
        "not_measured": sorted(METRICS.keys() - _SAID_ELSEWHERE),
        "callback_errors": 0,
        "problems": [],
    }


def monitoring_summary(
    watched: Watched, monitor: Monitor, alerts: Iterable[Alert], interval_s: float
) -> dict[str, Any]:
    """What was not measured is None, or not there, and is named in `not_measured`."""
    found = monitor.summary()
    newest = list(islice(reversed(list(alerts)), _RECENT_ALERTS))
    measured = {key.metric for key in found.metrics}
    return _figures(found.metrics, watched) | {
        "monitoring_interval": interval_s,
        "steps": found.steps,
        "alert_count": found.alerts,
        "open_alerts": [alert.to_dict() for alert in monitor.open_alerts],
        "alerts": [alert.to_dict() for alert in reversed(newest)],
        "metrics": {_name(key): strict_json(asdict(one)) for key, one in found.metrics.items()},
        "not_measured": sorted(METRICS.keys() - measured - _SAID_ELSEWHERE),
        "rules_switched_off": dict(found.broken),
    }


def _figures(metrics: Mapping[SeriesKey, MetricSummary], watched: Watched) -> dict[str, Any]:
    """Percent and GB; several GPUs: the average of all, the peak of one."""
    cpu, memory, step = (
        _of(metrics, name) for name in ("cpu_ratio", "memory_bytes", "step_seconds")
    )
    cpus = usable_cpus(os.getpid()) or None
    percent = 100.0 / cpus if cpus else None
    is_known = bool(cpu) and cpu[0].count >= _FEW
    held_bytes = None if memory or not watched.end_ns else rss_bytes()
    return {
        "duration": watched.seconds,
        "cpu_count": cpus,
        "avg_cpu_usage": _times(_average(cpu) if is_known else watched.cpus, percent),
        "peak_cpu_usage": _times(_peak(cpu) if is_known else watched.cpus, percent),
        "avg_memory_usage": _times(_average(memory) if memory else held_bytes, 1 / _GB),
        "peak_memory_usage": _times(_peak(memory) if memory else held_bytes, 1 / _GB),
        "avg_host_cpu_usage": _times(_average(_of(metrics, "host_cpu_ratio")), 100),
        "avg_host_memory_usage": _times(_average(_of(metrics, "host_memory_ratio")), 100),
        "avg_gpu_usage": _times(_average(_of(metrics, "gpu_busy_ratio")), 100),
        "peak_gpu_usage": _times(_peak(_of(metrics, "gpu_busy_ratio")), 100),
        "avg_gpu_memory_usage": _times(_average(_of(metrics, "gpu_memory_bytes")), 1 / _GB),
        "peak_gpu_memory_usage": _times(_peak(_of(metrics, "gpu_memory_bytes")), 1 / _GB),
        "avg_step_time": _average(step),
    }


def _of(metrics: Mapping[SeriesKey, MetricSummary], name: str) -> list[MetricSummary]:
    return [one for key, one in metrics.items() if key.metric == name]


def _average(series: list[MetricSummary]) -> float | None:
    return sum(one.average for one in series) / len(series) if series else None


def _peak(series: list[MetricSummary]) -> float | None:
    return max((one.peak for one in series), default=None)


def _times(value: float | None, factor: float | None) -> float | None:
    return None if value is None or factor is None else value * factor


def _name(key: SeriesKey) -> str:
    """A monitor in a program knows but its own rank."""
    return f"{key.metric}[{key.label}]" if key.label else key.metric
