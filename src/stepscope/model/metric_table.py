"""The metrics that a watched run has: one table, from which all exports take names and units."""

from __future__ import annotations

import enum
from typing import Final, NamedTuple

__all__ = ["METRICS", "Metric", "MetricType", "metric_named"]


class MetricType(enum.StrEnum):
    GAUGE = "gauge"  # as it is now
    COUNTER = "counter"  # since the run began; never falls


class Metric(NamedTuple):
    """A metric. `name` says its unit, which is a base unit; `unit` is that unit in UCUM.

    label: what tells its series apart ("phase", "gpu"); "": there is one a rank.
    """

    name: str
    unit: str
    about: str
    type: MetricType = MetricType.GAUGE
    label: str = ""

    @property
    def prometheus(self) -> str:
        """Its name there: base units and _total for counters are in the name already."""
        return f"stepscope_{self.name}"

    @property
    def otel(self) -> str:
        """Its name there: the unit is a field of its own, so what it is stands in its place."""
        name = self.name
        for suffix, instead in _OTEL_SUFFIXES.items():
            if name.endswith(suffix):
                name = name.removesuffix(suffix) + instead
        return f"stepscope.{name.replace('_', '.')}"


_OTEL_SUFFIXES: Final = {
    "_total": "",
    "_bytes": "",
    "_celsius": "",
    "_watts": "",
    "_seconds": "_time",
}
_COUNTER: Final = MetricType.COUNTER

_TABLE: Final = (
    Metric("steps_total", "{step}", "Training steps made", _COUNTER),
    Metric("step_seconds", "s", "Median time of a training step, evaluation and saves set aside"),
    Metric("steps_per_second", "{step}/s", "Training steps a second, whatever lay between them"),
    Metric("phase_ratio", "1", "Share of the loop's time that went to a phase", label="phase"),
    Metric("input_wait_ratio", "1", "Share of the time that training waited for its data"),
    Metric("gc_ratio", "1", "Share of the time in garbage collections"),
    Metric("gc_pause_seconds", "s", "Longest garbage collection since the last look"),
    Metric("cpu_ratio", "1", "CPU time of the program, in CPUs: 2 is two of them all the time"),
    Metric("memory_bytes", "By", "Resident memory of the program and its workers"),
    Metric("memory_limit_bytes", "By", "What the program may hold: the machine's, or a cgroup's"),
    Metric("memory_ratio", "1", "Memory of the program against that limit"),
    Metric("host_cpu_ratio", "1", "Share of the machine's CPUs that are busy"),
    Metric("host_memory_ratio", "1", "Share of the machine's memory that is taken"),
    Metric("disk_read_bytes_total", "By", "Read from disks by the program", _COUNTER),
    Metric("disk_write_bytes_total", "By", "Written to disks by the program", _COUNTER),
    Metric("gpu_busy_ratio", "1", "Share of the time that a GPU worked", label="gpu"),
    Metric("gpu_memory_bytes", "By", "Memory of a GPU in use", label="gpu"),
    Metric("gpu_memory_ratio", "1", "Share of a GPU's memory in use", label="gpu"),
    Metric("gpu_temperature_celsius", "Cel", "Temperature of a GPU", label="gpu"),
    Metric("gpu_power_watts", "W", "Power that a GPU draws", label="gpu"),
    Metric("gpu_clock_ratio", "1", "Clock of a GPU against its highest", label="gpu"),
    Metric("loss", "1", "The loss, where the program shows it"),
    Metric("events_lost_total", "{event}", "Events that stepscope could not record", _COUNTER),
    Metric("alerts_total", "{alert}", "Alerts raised", _COUNTER, "rule"),
)
METRICS: Final[dict[str, Metric]] = {metric.name: metric for metric in _TABLE}


def metric_named(name: str) -> Metric:
    """That of the table, or one that the program told of itself: a gauge without a unit."""
    return METRICS.get(name) or Metric(name, "1", "Told by the program with stepscope.metric()")
