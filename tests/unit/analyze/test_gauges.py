"""Readings of a session over time."""

from __future__ import annotations

import pytest

from stepscope.analyze.gauges import Gauges
from stepscope.model.watching import Reading

S = 1_000_000_000


def kept(*readings: Reading, start_ns: int = 0) -> Gauges:
    gauges = Gauges(start_ns)
    for reading in readings:
        gauges.reading(reading)
    return gauges


def test_each_metric_is_a_series_by_seconds_since_the_start() -> None:
    gauges = kept(
        Reading(6 * S, "host_memory_ratio", 0.75),
        Reading(7 * S, "memory_bytes", 8.0),
        Reading(8 * S, "host_cpu_ratio", 0.5),
        Reading(8 * S, "disk_read_bytes_total", 3.0),
        Reading(8 * S, "disk_write_bytes_total", 4.0),
        Reading(8 * S, "loss", 1.0),
        start_ns=5 * S,
    )
    assert gauges.seconds(gauges.memory, 100.0) == {1.0: 75.0}
    assert gauges.seconds(gauges.rss) == {2.0: 8.0}
    assert gauges.seconds(gauges.cpu) == {3.0: pytest.approx(0.5)}
    assert gauges.seconds(gauges.read) == {3.0: 3.0}
    assert gauges.seconds(gauges.written) == {3.0: 4.0}


def test_without_a_gpu_its_series_is_empty() -> None:
    gauges = kept()
    assert gauges.seconds(gauges.gpu) == {}


def test_the_fullest_gpu_counts() -> None:
    gauges = kept(
        Reading(S, "gpu_memory_ratio", 0.1, "0"),
        Reading(S, "gpu_memory_ratio", 0.9, "1"),
        Reading(2 * S, "gpu_memory_ratio", 0.8, "0"),
        Reading(2 * S, "gpu_memory_ratio", 0.2, "1"),
    )
    assert gauges.seconds(gauges.gpu) == {1.0: 0.9, 2.0: 0.2}
