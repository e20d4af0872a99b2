from __future__ import annotations

import json
import math
from dataclasses import fields

import pytest

from stepscope import BottleneckType, PerformanceMetrics

FULL = PerformanceMetrics(
    operation="train",
    calls=3,
    failed_calls=0,
    execution_time=45.2,
    cpu_time=40.0,
    user_time=38.0,
    system_time=2.0,
    cpu_usage=44.0,
    gpu_usage=78.0,
    memory_usage=2.0,
    initial_ram_mb=100.0,
    peak_ram_mb=2458.0,
    final_ram_mb=200.0,
    peak_gpu_mb=500.0,
    memory_leak_detected=False,
    estimated_flops=10,
    flops_per_second=5.0,
    peak_flops_percent=1.0,
    host_cpu_percent=50.0,
    bottleneck_type=next(iter(BottleneckType)),
    notes=("a note",),
)


def test_groups_are_views_of_the_flat_fields() -> None:
    assert (FULL.memory.initial_ram_mb, FULL.memory.peak_ram_mb) == (100.0, 2458.0)
    assert (FULL.memory.peak_gpu_mb, FULL.memory.memory_leak_detected) == (500.0, False)
    assert (FULL.timing.wall_time_s, FULL.timing.cpu_time_s) == (45.2, 40.0)
    assert (FULL.timing.user_time_s, FULL.timing.system_time_s) == (38.0, 2.0)
    assert (FULL.compute.estimated_flops, FULL.compute.gpu_utilization_percent) == (10, 78.0)
    assert FULL.compute.cpu_utilization_percent == 44.0
    assert FULL.system.cpu_percent == 50.0


def test_what_was_not_measured_is_none_everywhere() -> None:
    empty = PerformanceMetrics()
    for group in (empty.memory, empty.timing, empty.compute, empty.system):
        assert [getattr(group, field.name) for field in fields(group)] == [None] * len(
            fields(group)
        )
    assert empty.summary() == "nothing was measured"
    assert not empty.is_partial


def test_a_saved_one_comes_back_the_same() -> None:
    saved = json.loads(json.dumps(FULL.to_dict()))
    assert saved["memory"]["peak_ram_mb"] == 2458.0
    assert PerformanceMetrics.from_dict({**saved, "from a newer version": 1}) == FULL


def test_a_figure_that_is_not_a_number_is_none_in_the_dictionary() -> None:
    metrics = PerformanceMetrics(execution_time=math.nan, cpu_usage=math.inf, peak_ram_mb=1.5)
    saved = metrics.to_dict()
    json.dumps(saved, allow_nan=False)
    assert (saved["execution_time"], saved["timing"]["wall_time_s"]) == (None, None)
    assert (saved["cpu_usage"], saved["compute"]["cpu_utilization_percent"]) == (None, None)
    assert saved["memory"]["peak_ram_mb"] == 1.5


@pytest.mark.parametrize(
    ("metrics", "line"),
    [
        (FULL, "Peak RAM: 2.4 GB, Wall Time: 45.2s, GPU Util: 78%"),
        (
            PerformanceMetrics(peak_ram_mb=512.3, execution_time=0.0125, cpu_usage=30.0),
            "Peak RAM: 512 MB, Wall Time: 12.5ms, CPU Util: 30%",
        ),
        (
            PerformanceMetrics(execution_time=2.0, failed_calls=1),
            "Wall Time: 2.0s (partial: an exception ended it)",
        ),
    ],
)
def test_one_line_for_people(metrics: PerformanceMetrics, line: str) -> None:
    assert metrics.summary() == line
