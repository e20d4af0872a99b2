"""The metrics that a watched run has: one table, from which all exports take names and units.

Conventions: Prometheus names hold the base unit and `_total` for counters. OpenTelemetry names hold
neither, for both are fields of their own there: a collector that hands them on to Prometheus adds
them again and ends at the same names, so one dashboard serves both ways. (It adds `_ratio` to
gauges of unit "1": what is no ratio has another unit.)
"""

from __future__ import annotations

import enum
import re
from typing import Final, NamedTuple

__all__ = ["METRICS", "Metric", "MetricType", "metric_named"]


class MetricType(enum.StrEnum):
    GAUGE = "gauge"  # as it is now
    COUNTER = "counter"  # since the run began; never falls


class Metric(NamedTuple):
    """A metric. `name` says its unit, which is a base unit; `unit` is that unit in UCUM.

    label: what tells its series apart ("phase", "gpu"); "": there is one a rank. "rule/kind": two
    such, and the labels of its readings are two words likewise ("slowdown/input-cpu").
    """

    name: str
    unit: str
    about: str
    type: MetricType = MetricType.GAUGE
    label: str = ""

    @property
    def is_of_program(self) -> bool:
        """The program told of it (`stepscope.metric()`): its name can be anything."""
        return self.name not in METRICS

    @property
    def prometheus(self) -> str:
        """Its name there: base units and _total for counters are in the name already."""
        return f"stepscope_{f'user_{_word(self.name)}' if self.is_of_program else self.name}"

    @property
    def otel(self) -> str:
        """Its name there: what the unit and the type say is left out."""
        name = self.prometheus
        for suffix in () if self.is_of_program else _OTEL_SAYS_OTHERWISE:
            name = name.removesuffix(suffix)
        return name.replace("_", ".")

    def labels_of(self, label: str) -> dict[str, str]:
        """The labels of a series by their names. label: that of its readings."""
        if not self.label:
            return {"label": label} if label else {}
        names = self.label.split("/")
        words = label.rsplit("/", len(names) - 1)
        return dict(zip(names, words + [""] * (len(names) - len(words)), strict=True))


_OTEL_SAYS_OTHERWISE: Final = ("_total", "_bytes", "_celsius", "_watts", "_seconds")
_LONGEST_NAME: Final = 100
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
    Metric(
        "reference_seconds", "s", "A piece of work that is always the same: the machine's speed"
    ),
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
    Metric("loss", "{loss}", "The loss, where the program shows it"),
    Metric("events_lost_total", "{event}", "Events that stepscope could not record", _COUNTER),
    Metric("alert", "{alert}", "1 while an alert goes on, 0 when it is over", label="rule/kind"),
    Metric("alerts_total", "{alert}", "Alerts raised", _COUNTER, "rule"),
    Metric(
        "readings_dropped_total", "{reading}", "Readings of more series than are kept", _COUNTER
    ),
)
METRICS: Final[dict[str, Metric]] = {metric.name: metric for metric in _TABLE}


def metric_named(name: str) -> Metric:
    """That of the table, or one that the program told of itself: a gauge without a unit."""
    return METRICS.get(name) or Metric(name, "", "Told by the program with stepscope.metric()")


def _word(name: str) -> str:
    """Of a name that can hold anything, what a Prometheus name may hold. Two can become one."""
    return re.sub(r"[^a-zA-Z0-9]+", "_", name)[:_LONGEST_NAME].strip("_") or "unnamed"
