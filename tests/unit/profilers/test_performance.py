from __future__ import annotations

import math
from typing import Any

import pytest

from stepscope import NoResultsError, PerformanceProfiler, UsageError


@pytest.fixture
def profiler() -> PerformanceProfiler:
    return PerformanceProfiler()


@pytest.mark.parametrize("value", [-0.5, 0, math.nan, math.inf, 3601, "1", None, True])
def test_an_interval_that_is_none_is_refused(value: Any) -> None:
    with pytest.raises(UsageError, match=r"memory_interval.*more than 0 and at most 3600"):
        PerformanceProfiler(memory_interval=value)


@pytest.mark.parametrize("value", [-5, 0, math.nan, math.inf, "65", True])
@pytest.mark.parametrize("switches", [{}, {"track_carbon": True}, {"enabled": False}])
def test_watts_that_cannot_be_are_refused_at_construction(value: Any, switches: Any) -> None:
    with pytest.raises(UsageError, match=r"cpu_watts=.* a number of watts, more than 0"):
        PerformanceProfiler(cpu_watts=value, **switches)


@pytest.mark.parametrize(
    "name",
    [
        "track_gpu", "track_carbon", "detailed_memory", "enable_line_profiling", "estimate_flops",
        "enabled",
    ],
)  # fmt: skip
def test_a_switch_is_true_or_false(name: str) -> None:
    with pytest.raises(UsageError, match=f"{name} is True or False, not 'yes'"):
        PerformanceProfiler(**{name: "yes"})  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["", None, 3, b"x", ["x"], {}, ("x",)])
def test_an_operation_is_named_by_a_text(profiler: PerformanceProfiler, name: Any) -> None:
    with pytest.raises(UsageError, match="named by a text that is not empty"):
        profiler.profile(name)
    assert not profiler.has_results()


@pytest.mark.parametrize("name", ["a/b", "ünïcode ✓", "\ud800", "nul\0nul", " ", "x" * 100_000])
def test_any_text_is_a_name(profiler: PerformanceProfiler, name: str) -> None:
    with profiler.profile(name):
        pass
    assert profiler.get_metrics(name).calls == 1
    assert list(profiler.get_timing_breakdown()) == [name]


def test_before_any_operation_there_is_nothing(profiler: PerformanceProfiler) -> None:
    assert not profiler.has_results()
    assert profiler.get_timing_breakdown() == {}
    with pytest.raises(NoResultsError, match="Nothing was profiled yet"):
        profiler.get_metrics()
    with pytest.raises(NoResultsError, match="nothing yet"):
        profiler.get_metrics("x")


@pytest.mark.parametrize("name", ["lod", None, 3, ["load"]])
def test_an_unknown_operation_is_refused_with_the_known_ones(
    profiler: PerformanceProfiler, name: Any
) -> None:
    with profiler.profile("load"), profiler.profile("train"):
        pass
    if name is None:
        assert profiler.get_metrics(name).operation == "load", "the one that ended last"
        return
    with pytest.raises(NoResultsError, match="'load', 'train'"):
        profiler.get_metrics(name)


def test_two_profilers_do_not_share_a_name() -> None:
    one, two = PerformanceProfiler(), PerformanceProfiler()
    with one.profile("x"):
        pass
    for _ in range(3):
        with two.profile("x"):
            pass
    assert (one.get_metrics("x").calls, two.get_metrics("x").calls) == (1, 3)


def test_an_operation_that_still_runs_has_metrics_so_far(profiler: PerformanceProfiler) -> None:
    with profiler.profile("running"):
        assert not profiler.has_results()
        so_far = profiler.get_metrics("running")
        assert so_far.execution_time is not None
        assert so_far.execution_time > 0
    assert profiler.get_metrics("running").calls == 1


def test_an_exception_keeps_what_was_measured_and_passes_on(profiler: PerformanceProfiler) -> None:
    with pytest.raises(KeyError), profiler.profile("failing"):
        raise KeyError("x")
    with profiler.profile("failing"):
        pass
    metrics = profiler.get_metrics("failing")
    assert (metrics.calls, metrics.failed_calls, metrics.is_partial) == (2, 1, True)
    assert profiler.has_results()


def test_switched_off_it_measures_nothing() -> None:
    off = PerformanceProfiler(enabled=False)
    with off.profile("x"):
        pass
    with pytest.raises(KeyError), off.profile("x"):
        raise KeyError("x")
    assert not off.has_results()
    assert off.get_timing_breakdown() == {}
    with pytest.raises(UsageError, match="enabled=False"):
        off.get_metrics("x")


def test_what_can_be_asked_at_any_time(profiler: PerformanceProfiler) -> None:
    assert profiler.get_current_memory() > 1
    share = profiler.get_current_gpu_memory()
    assert math.isnan(share) or 0 <= share <= 1
