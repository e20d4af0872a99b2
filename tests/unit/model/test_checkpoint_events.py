from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from stepscope.model.checkpoint_advice import (
    OptimizationRecommendation,
    RecommendationPriority,
    RecommendationType,
)
from stepscope.model.checkpoint_events import (
    CheckpointEvent,
    CheckpointEventType,
    LayerProfile,
    ProfilingSummary,
    event_type,
    format_bytes,
    format_ms,
)

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
CHECKPOINT, RECOMPUTE, RETRIEVE, DEALLOCATE = CheckpointEventType


def event(kind: CheckpointEventType | str, ms: float = 0, memory: int = 0) -> CheckpointEvent:
    return CheckpointEvent("block", kind, NOON, ms, memory)


def profile_of(*events: CheckpointEvent) -> LayerProfile:
    profile = LayerProfile("block")
    for one in events:
        profile.record_event(one)
    return profile


def summary(**fields: Any) -> ProfilingSummary:
    return ProfilingSummary(**{"start_time": NOON, "end_time": NOON, **fields})


# ---- LayerProfile ----


def test_record_event_updates_the_statistics_of_a_layer() -> None:
    profile = profile_of(
        event(CHECKPOINT, 3, 100),
        event(CHECKPOINT, 1.5, 50),
        event(RECOMPUTE, 7, 999),
        event(RETRIEVE, 1, 999),
        event(DEALLOCATE, 1, 150),
        event("offload", 2, 10),
        event("offload"),
    )
    assert (profile.checkpoint_count, profile.total_checkpoint_time_ms) == (2, 4.5)
    assert (profile.recompute_count, profile.total_recompute_time_ms) == (1, 7.0)
    assert (profile.cache_hit_count, profile.deallocation_count) == (1, 1)
    assert profile.total_memory_saved == 150, "only checkpoints save"
    assert profile.custom_counts == {"offload": 2}


def test_the_value_of_a_type_is_as_good_as_the_type() -> None:
    assert event_type("recompute") is RECOMPUTE
    assert event_type("offload") == "offload"
    assert profile_of(event("recompute", 2)).recompute_count == 1


def test_the_average_checkpoint_time_is_that_of_a_checkpoint() -> None:
    assert profile_of(event(CHECKPOINT, 3), event(CHECKPOINT, 2)).average_checkpoint_time_ms == 2.5
    assert LayerProfile().average_checkpoint_time_ms == 0.0


def test_the_average_recompute_time_is_that_of_a_recomputation() -> None:
    assert profile_of(event(RECOMPUTE, 0.5), event(RECOMPUTE, 1)).average_recompute_time_ms == 0.75
    assert LayerProfile().average_recompute_time_ms == 0.0


@pytest.mark.parametrize(
    ("hits", "recomputations", "rate"), [(0, 0, 0.0), (0, 5, 0.0), (3, 1, 0.75), (9, 0, 1.0)]
)
def test_the_reuse_rate_is_the_share_of_hits_among_what_backward_needed(
    hits: int, recomputations: int, rate: float
) -> None:
    events = [event(CHECKPOINT), *[event(RETRIEVE)] * hits, *[event(RECOMPUTE)] * recomputations]
    assert profile_of(*events).reuse_rate == rate


@pytest.mark.parametrize(
    ("checkpoints", "hits", "rate"), [(4, 1, 0.25), (4, 4, 1.0), (4, 9, 1.0), (0, 3, 0.0)]
)
def test_the_cache_hit_rate_is_hits_over_checkpoints_and_at_most_one(
    checkpoints: int, hits: int, rate: float
) -> None:
    events = [*[event(CHECKPOINT)] * checkpoints, *[event(RETRIEVE)] * hits, event(RECOMPUTE)]
    assert profile_of(*events).cache_hit_rate == rate


# ---- ProfilingSummary ----


def test_the_text_of_a_summary_is_that_of_the_specification() -> None:
    small = LayerProfile("small", 1, 2.0, 2, 5.0, 2, 10)
    large = LayerProfile("large", 2, 3.0, 0, 0.0, 0, 3 << 20)
    text = str(
        summary(
            duration=1234.567,
            total_events=9,
            total_checkpoint_time=5.0,
            total_recompute_time=5.0,
            total_memory_saved=(3 << 20) + 10,
            layer_profiles=(small, large),
        )
    )
    assert text == (
        "Checkpoint Profiling Summary\n"
        "============================\n"
        "Duration: 1234.57ms\n"
        "Total Events: 9\n"
        "Total Checkpoint Time: 5ms\n"
        "Total Recompute Time: 5ms\n"
        "Total Memory Saved: 3.00MB\n"
        "\n"
        "Layer Profiles:\n"
        "===============\n"
        "large:\n"
        "  Checkpoints: 2\n"
        "  Avg Checkpoint Time: 1.50ms\n"
        "  Recomputations: 0\n"
        "  Avg Recompute Time: 0.00ms\n"
        "  Cache Hit Rate: 0.00%\n"
        "  Memory Saved: 3.00MB\n"
        "small:\n"
        "  Checkpoints: 1\n"
        "  Avg Checkpoint Time: 2.00ms\n"
        "  Recomputations: 2\n"
        "  Avg Recompute Time: 2.50ms\n"
        "  Cache Hit Rate: 100.00%\n"
        "  Memory Saved: 10B\n"
    )


def test_what_the_specification_does_not_have_stands_at_the_end() -> None:
    layer = LayerProfile("block", custom_counts={"offload": 3})
    text = str(
        summary(
            total_recompute_time=1.25,
            layer_profiles=(layer,),
            memory_in_use_bytes=512,
            peak_memory_in_use_bytes=2048,
            peak_memory_saved_bytes=4096,
            peak_reduction_bytes=1024,
            analyses={"slowest": "block"},
        )
    )
    assert str(summary()).endswith("===============\n"), "where there is nothing to say"
    assert "Total Recompute Time: 1.25ms\n" in text
    assert text.endswith(
        "  Memory Saved: 0B\n"
        "\n"
        "Memory In Use: 512B now, 2.00KB at most\n"
        "Not Kept At Most: 4.00KB\n"
        "Peak Of Memory: 1.00KB lower than without checkpoints\n"
        "Custom Events: 3 of 'offload' in block\n"
        "Analysis slowest: block\n"
    )


def test_checkpoints_that_raise_the_peak_are_told() -> None:
    text = str(summary(peak_reduction_bytes=-2048))
    assert text.endswith("Peak Of Memory: 2.00KB higher than without checkpoints\n")


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0B"),
        (1023, "1023B"),
        (1024, "1.00KB"),
        (1536, "1.50KB"),
        (1024**2 - 1, "1024.00KB"),
        (1024**2, "1.00MB"),
        (1024**3 - 1, "1024.00MB"),
        (1024**3, "1.00GB"),
        (5 * 1024**4, "5120.00GB"),
    ],
)
def test_bytes_are_formatted_as_the_specification_does(count: int, text: str) -> None:
    assert format_bytes(count) == text


@pytest.mark.parametrize(
    ("ms", "text"),
    [(0, "0ms"), (999, "999ms"), (0.25, "0.25ms"), (1000, "1.0s"), (59_900, "59.9s"),
     (60_000, "1.0m"), (90_000, "1.5m")],
)  # fmt: skip
def test_times_are_formatted_as_the_specification_does(ms: float, text: str) -> None:
    assert format_ms(ms) == text


def test_a_summary_is_json_with_its_derived_figures_and_times_in_utc() -> None:
    berlin = NOON.astimezone(timezone(timedelta(hours=1)))
    layer = LayerProfile("block", 2, 1.0, 1, 0.5, 1, 10)
    found = json.loads(json.dumps(summary(start_time=berlin, layer_profiles=(layer,)).as_json()))
    assert found["start_time"] == "2026-03-01T12:00:00+00:00"
    assert found["layer_profiles"][0]["cache_hit_rate"] == 0.5
    assert found["layer_profiles"][0]["average_recompute_time_ms"] == 0.5


# ---- OptimizationRecommendation ----


def test_the_text_of_a_recommendation_is_that_of_the_specification() -> None:
    one = OptimizationRecommendation(
        RecommendationType.REDUCE_RECOMPUTATION, RecommendationPriority.HIGH, "Title", "What to do."
    )
    assert str(one) == "[High] Title: What to do."
    assert one.affected_layer_id is None
