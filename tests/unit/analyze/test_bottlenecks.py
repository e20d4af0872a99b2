from __future__ import annotations

from dataclasses import replace

import pytest

from stepscope import BottleneckProfile, BottleneckType, PerformanceMetrics
from stepscope.analyze.bottlenecks import (
    OperationRecord,
    finding_bottlenecks,
    memory_bottleneck,
    operation_bottlenecks,
    worst_first,
)
from stepscope.model.finding import Finding, Recommendation
from stepscope.model.watching import Crossing

S = 1_000_000_000


def record(name: str, own_s: float, wall_s: float | None = None) -> OperationRecord:
    took_s = wall_s or own_s
    metrics = PerformanceMetrics(calls=3, execution_time=took_s, cpu_time=took_s, cpu_usage=25.0)
    return OperationRecord(name, BottleneckType.PREPROCESSING, metrics, own_s * S)


def of_type(kind: BottleneckType, **measured: float) -> BottleneckProfile:
    """An operation of 4 of 10 seconds."""
    metrics = PerformanceMetrics(calls=1, execution_time=4.0, **measured)  # type: ignore[arg-type]
    (found,) = operation_bottlenecks([OperationRecord("o", kind, metrics, 4.0 * S)], 10 * S, 0.05)
    return found


def test_an_operation_is_judged_by_its_own_share_of_the_session() -> None:
    records = [record("large", 4.0, 9.0), record("small", 0.4), record("at", 0.5)]
    large, at = operation_bottlenecks(records, 10 * S, threshold=0.05)
    assert (large.operation_name, at.operation_name) == ("large", "at")
    assert large.share == pytest.approx(0.4)
    assert at.severity == pytest.approx(0.4)  # moderate at the threshold
    assert large.severity == pytest.approx(0.7 + 0.3 * (0.4 - 0.2) / 0.8)  # high at four times it
    assert large.frequency == 3
    assert "operations within it" in large.evidence[0]
    assert "within" not in at.evidence[0]


def test_the_potential_of_an_operation_is_what_idle_cpus_or_gpus_could_take_over() -> None:
    computing = BottleneckType.CPU_COMPUTATION
    one_of_four_cpus = of_type(computing, cpu_usage=25.0)
    assert one_of_four_cpus.optimization_potential == pytest.approx(0.4 * 0.75)
    all_cpus = of_type(computing, cpu_usage=100.0)
    assert all_cpus.optimization_potential == 0.0
    a_busy_gpu = of_type(computing, cpu_usage=25.0, gpu_usage=90.0)
    assert a_busy_gpu.optimization_potential == pytest.approx(0.4 * 0.1)
    assert of_type(computing).optimization_potential is None, "nothing was measured"


def test_confidence_in_an_operation_is_how_far_its_cpu_use_speaks_for_its_type() -> None:
    assert of_type(BottleneckType.CPU_COMPUTATION, cpu_time=3.0).confidence == 0.75
    queued = of_type(BottleneckType.CPU_COMPUTATION, cpu_time=1.0, cpu_wait_time=2.0)
    assert queued.confidence == 0.75, "it was ready and had no CPU"
    assert of_type(BottleneckType.I_O_OPERATION, cpu_time=3.0).confidence == 0.25
    assert of_type(BottleneckType.I_O_OPERATION).confidence is None, "nothing was measured"
    loading = of_type(BottleneckType.DATA_LOADING, cpu_time=3.0)
    assert loading.confidence is None, "loading may compute or wait"


def test_confidence_in_memory_is_how_much_of_it_is_our_own() -> None:
    passed = Crossing(0.8, 2, 0.9, 4 * S, 10 * S)
    found = memory_bottleneck("m", "it", passed, 1000.0, 450.0)
    assert found is not None
    assert found.confidence == pytest.approx(0.5)
    unknown = memory_bottleneck("m", "it", passed, None, 450.0)
    assert unknown is not None
    assert unknown.confidence is None


def test_severity_of_memory_is_how_far_and_how_long() -> None:
    found = memory_bottleneck("m", "it", Crossing(0.8, 2, 0.9, 4 * S, 10 * S), 2**20 * 1000.0, None)
    assert found is not None
    assert found.severity == pytest.approx((0.5 + 0.4) / 2)
    assert found.frequency == 2
    assert found.execution_time == 4.0
    assert found.memory_usage == pytest.approx(900.0)
    assert found.optimization_potential is None, "no time was measured for it"
    assert found.bottleneck_type is BottleneckType.MEMORY_ALLOCATION
    assert memory_bottleneck("m", "it", Crossing(0.8), None, None) is None


def test_memory_that_was_full_all_the_time_could_not_be_worse() -> None:
    found = memory_bottleneck("m", "it", Crossing(1.0, 1, 1.0, 10 * S, 10 * S), None, None)
    assert found is not None
    assert found.severity == 1.0


def test_memory_that_was_seen_once_was_passed_for_no_time() -> None:
    found = memory_bottleneck("m", "it", Crossing(0.8, 1, 0.9, 0, 0), None, None)
    assert found is not None
    assert found.severity == pytest.approx(0.25)
    assert found.execution_time == 0.0


def finding(kind: str, share: float) -> Finding:
    advice = Recommendation("Do this", "now")
    return Finding(kind, "waits", share, 0.6, 0.9, ("why",), recommendation=advice)


def test_findings_of_a_loop_are_bottlenecks_but_its_computation_is_not() -> None:
    metrics = PerformanceMetrics(execution_time=10.0)
    found = [finding("input-cpu", 0.5), finding("compute", 0.4), finding("gc", 0.01)]
    (one,) = finding_bottlenecks(found, metrics, 0.05, steps=7)
    assert one.operation_name == "input-cpu"
    assert one.bottleneck_type is BottleneckType.PREPROCESSING
    assert (one.severity, one.confidence, one.frequency) == (0.6, 0.9, 7)
    assert one.execution_time == pytest.approx(5.0)
    assert one.suggestions == ("Do this: now",)
    without_loop = finding_bottlenecks(found, metrics, 0.05, steps=0)
    assert [one.operation_name for one in without_loop] == ["input-cpu", "compute"]


def test_the_potential_of_a_finding_is_the_gain_that_is_expected_of_its_recommendation() -> None:
    advice = Recommendation("Do this", "now", expected_speedup=(1.0, 1.5625))
    known = replace(finding("input-cpu", 0.5), recommendation=advice)
    found = finding_bottlenecks(
        [known, finding("input-io", 0.5)], PerformanceMetrics(execution_time=1.0), 0.05, steps=7
    )
    assert [one.optimization_potential for one in found] == [pytest.approx(0.2), None]


def test_a_share_of_memory_is_no_share_of_the_time() -> None:
    (one,) = finding_bottlenecks(
        [finding("memory-pressure", 0.9)], PerformanceMetrics(execution_time=1.0), 0.05, steps=0
    )
    assert (one.share, one.execution_time, one.optimization_potential) == (None, None, None)


def test_the_worst_comes_first() -> None:
    found = operation_bottlenecks([record("b", 1), record("a", 1), record("c", 8)], 10 * S, 0.05)
    assert [one.operation_name for one in worst_first(found)] == ["c", "a", "b"]
