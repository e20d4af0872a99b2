"""Items of document 000, activation checkpointing, that no other test holds.

docs/specifications.md lists every item with the test that holds it.
"""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from stepscope import profilers
from stepscope.profilers import (
    CheckpointEvent,
    CheckpointEventType,
    CheckpointManager,
    CheckpointMonitor,
    CheckpointProfiler,
    LayerProfile,
    OptimizationRecommendation,
    OptimizationRecommender,
    ProfilingSummary,
    RecommendationPriority,
    RecommendationType,
    RecomputationEngine,
)

pytestmark = pytest.mark.timed

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
CHECKPOINT, RECOMPUTE, RETRIEVE, DEALLOCATE = CheckpointEventType


@pytest.fixture
def profiler() -> Iterator[CheckpointProfiler]:
    with CheckpointProfiler(CheckpointManager(), RecomputationEngine()) as made:
        made.start_profiling()
        yield made


def recommendations(profiler: CheckpointProfiler) -> list[OptimizationRecommendation]:
    return OptimizationRecommender().generate_recommendations(profiler.get_summary())


# ---- CheckpointProfiler ----


def test_the_constructor_takes_a_manager_and_an_engine_by_position_or_by_name() -> None:
    by_position = CheckpointProfiler(CheckpointManager(), RecomputationEngine())
    by_name = CheckpointProfiler(
        checkpoint_manager=CheckpointManager(), recompute_engine=RecomputationEngine()
    )
    assert (by_position.is_profiling, by_name.is_profiling) == (False, False)


def test_record_event_takes_its_arguments_by_name_and_no_memory_by_default(
    profiler: CheckpointProfiler,
) -> None:
    profiler.record_event(layer_id="a", event_type=CHECKPOINT, duration_ms=2, memory_bytes=100)
    profiler.record_event(layer_id="a", event_type=CHECKPOINT, duration_ms=4)
    layer = profiler.get_layer_profile("a")
    assert layer is not None
    assert (layer.total_checkpoint_time_ms, layer.total_memory_saved) == (6.0, 100)


def test_stopping_keeps_the_data(profiler: CheckpointProfiler) -> None:
    profiler.record_event("a", CHECKPOINT, 2, 100)
    profiler.stop_profiling()
    assert profiler.get_summary().total_memory_saved == 100
    assert list(profiler.get_all_layer_profiles()) == ["a"]


def test_leaving_a_with_block_stops_and_clears() -> None:
    with CheckpointProfiler(CheckpointManager(), RecomputationEngine()) as profiler:
        profiler.start_profiling()
        profiler.record_event("a", CHECKPOINT, 2)
    profiler.close()
    assert not profiler.is_profiling
    assert profiler.get_summary().total_events == 0


def test_exported_json_has_every_field_of_the_summary(profiler: CheckpointProfiler) -> None:
    profiler.record_event("a", CHECKPOINT, 2, 100)
    found = json.loads(profiler.export_to_json())
    assert set(found) >= {
        "start_time", "end_time", "duration", "total_events", "total_checkpoint_time",
        "total_recompute_time", "total_memory_saved", "layer_profiles",
    }  # fmt: skip
    assert set(found["layer_profiles"][0]) >= {
        "layer_id", "checkpoint_count", "total_checkpoint_time_ms", "average_checkpoint_time_ms",
        "recompute_count", "total_recompute_time_ms", "average_recompute_time_ms",
        "cache_hit_count", "cache_hit_rate", "total_memory_saved",
    }  # fmt: skip


def test_exported_json_is_strict_json_whatever_an_analysis_returns(
    profiler: CheckpointProfiler,
) -> None:
    profiler.add_analysis("mean", lambda summary: {"ms": [math.nan, -math.inf, 1.5]})
    found = json.loads(profiler.export_to_json(), parse_constant=pytest.fail)
    assert found["analyses"] == {"mean": {"ms": [None, None, 1.5]}}


@pytest.mark.parametrize(
    ("duration_ms", "memory_bytes"),
    [(-1, 0), (math.nan, 0), (math.inf, 0), (2**62, 0), (1, -1), (1, 2**200), (1, 1.5)],
)
def test_values_that_cannot_be_are_refused_and_count_nothing(
    profiler: CheckpointProfiler, duration_ms: Any, memory_bytes: Any
) -> None:
    with pytest.raises((ValueError, TypeError, OverflowError)):
        profiler.record_event("a", CHECKPOINT, duration_ms, memory_bytes)
    assert profiler.get_summary().total_events == 0


def test_eight_threads_lose_no_event(profiler: CheckpointProfiler) -> None:
    def record() -> None:
        for _ in range(10_000):
            profiler.record_event("shared", RECOMPUTE, 1)

    threads = [threading.Thread(target=record) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert profiler.get_summary().total_events == 80_000
    assert profiler.get_summary().total_recompute_time == 80_000


# ---- CheckpointEvent and LayerProfile ----


def test_there_are_four_event_types() -> None:
    assert [one.name for one in CheckpointEventType] == [
        "CHECKPOINT", "RECOMPUTE", "RETRIEVE", "DEALLOCATE",
    ]  # fmt: skip


def test_an_event_type_of_your_own_is_counted_under_its_name(profiler: CheckpointProfiler) -> None:
    profiler.record_event("a", "offload", 3)
    profiler.record_event("a", "offload", 3)
    layer = profiler.get_layer_profile("a")
    assert layer is not None
    assert (layer.custom_counts, layer.checkpoint_count) == ({"offload": 2}, 0)


def test_an_event_needs_no_arguments_and_its_fields_can_be_set() -> None:
    event = CheckpointEvent()
    assert (event.layer_id, event.event_type) == ("", CHECKPOINT)
    assert (event.duration_ms, event.memory_bytes) == (0.0, 0)
    event.layer_id, event.event_type, event.timestamp = "block", RECOMPUTE, NOON
    event.duration_ms, event.memory_bytes = 1.5, 64
    assert event == CheckpointEvent("block", RECOMPUTE, NOON, 1.5, 64)


def test_an_event_takes_its_duration_in_milliseconds() -> None:
    event = CheckpointEvent(layer_id="block", event_type=RECOMPUTE, duration_ms=2.5)
    assert event.duration_ms == 2.5
    assert event.timestamp.utcoffset() is not None


def test_a_layer_profile_needs_no_arguments_and_its_averages_are_zero() -> None:
    layer = LayerProfile()
    assert layer.layer_id == ""
    averages = layer.average_checkpoint_time_ms, layer.average_recompute_time_ms
    assert (*averages, layer.cache_hit_rate, layer.reuse_rate) == (0.0, 0.0, 0.0, 0.0)


def test_the_totals_of_a_layer_can_be_set_in_milliseconds() -> None:
    layer = LayerProfile(layer_id="block", checkpoint_count=2, total_checkpoint_time_ms=5)
    layer.recompute_count = 4
    layer.total_recompute_time_ms = 10.0
    layer.total_checkpoint_time_ms += 1
    assert (layer.average_checkpoint_time_ms, layer.average_recompute_time_ms) == (3.0, 2.5)
    layer.record_event(CheckpointEvent(event_type=CHECKPOINT, duration_ms=3))
    assert layer.total_checkpoint_time_ms == 9.0


def test_the_report_shows_the_cache_hit_rate_as_written(profiler: CheckpointProfiler) -> None:
    for kind in (CHECKPOINT, CHECKPOINT, RETRIEVE, RETRIEVE, RECOMPUTE, RECOMPUTE):
        profiler.record_event("block", kind, 1)
    assert "  Cache Hit Rate: 100.00%\n" in profiler.generate_report()


# ---- OptimizationRecommender ----


@pytest.mark.parametrize(("hits", "recommended"), [(5, True), (10, False), (15, False)])
def test_a_low_hit_rate_is_recommended_against_also_where_nothing_was_recomputed(
    profiler: CheckpointProfiler, hits: int, recommended: bool
) -> None:
    for _ in range(20):
        profiler.record_event("block", CHECKPOINT, 1)
    for _ in range(hits):
        profiler.record_event("block", RETRIEVE, 1)
    found = recommendations(profiler)
    assert [one.type for one in found] == [RecommendationType.IMPROVE_CACHE_HIT_RATE] * recommended
    if recommended:
        assert "has a cache hit rate of only 25%." in found[0].description


def test_the_impact_of_more_cache_hits_is_the_time_they_would_save(
    profiler: CheckpointProfiler,
) -> None:
    for _ in range(12):
        profiler.record_event("block", CHECKPOINT, 1)
        profiler.record_event("block", RECOMPUTE, 10)
    (one,) = recommendations(profiler)
    assert one.type is RecommendationType.IMPROVE_CACHE_HIT_RATE
    assert one.expected_impact.startswith(
        "Each further hit would have saved 10ms, all of them 120ms"
    )
    assert one.impact_ms == 120


def test_there_are_six_types_and_three_priorities_of_recommendations() -> None:
    assert [one.name for one in RecommendationType] == [
        "REDUCE_RECOMPUTATION", "IMPROVE_CACHE_HIT_RATE", "IMPROVE_EFFICIENCY",
        "ADJUST_CHECKPOINT_STRATEGY", "ENABLE_ASYNC_RECOMPUTATION", "INCREASE_CHECKPOINT_FREQUENCY",
    ]  # fmt: skip
    assert [one.value for one in RecommendationPriority] == ["High", "Medium", "Low"]


# ---- CheckpointMonitor ----


def test_a_monitor_has_the_defaults_and_argument_names_of_the_document(
    profiler: CheckpointProfiler,
) -> None:
    found: list[Any] = []
    with CheckpointMonitor(profiler) as monitor:
        monitor.memory_threshold_exceeded.append(lambda _, args: found.append(args))
        monitor.recomputation_threshold_exceeded.append(lambda _, args: found.append(args))
        profiler.record_event("a", CHECKPOINT, 1, 2**30)
        profiler.record_event("a", RECOMPUTE, 1000)
        monitor.check_thresholds()
        assert found == [], "exactly 1 GiB and 1,000 ms do not exceed the thresholds"
        profiler.record_event("a", CHECKPOINT, 1, 1)
        profiler.record_event("a", RECOMPUTE, 1)
        monitor.check_thresholds()
    assert [one.threshold for one in found] == [2**30, 1000]
    CheckpointMonitor(
        profiler, memory_threshold_bytes=1, recompute_threshold_ms=1, monitor_interval_ms=1000
    ).close()


def test_the_event_classes_go_by_the_names_of_the_document_too() -> None:
    assert profilers.MemoryThresholdEventArgs is profilers.MemoryThresholdExceeded
    assert profilers.RecomputationThresholdEventArgs is profilers.RecomputationThresholdExceeded


def test_a_summary_made_by_hand_can_be_judged() -> None:
    layer = LayerProfile(layer_id="block", recompute_count=9, total_recompute_time_ms=50)
    summary = ProfilingSummary(NOON, NOON, layer_profiles=(layer,))
    (one,) = OptimizationRecommender().generate_recommendations(summary)
    assert one.expected_impact == "Could save 50ms of recomputation time"
