from __future__ import annotations

from typing import Any

import pytest

from stepscope import (
    CheckpointEventType,
    CheckpointProfiler,
    OptimizationRecommendation,
    OptimizationRecommender,
    ProfilingSummary,
    RecommendationPriority,
    RecommendationType,
    UsageError,
)

CHECKPOINT, RECOMPUTE, RETRIEVE, DEALLOCATE = CheckpointEventType


def test_recommendations_come_from_what_was_profiled(profiler: CheckpointProfiler) -> None:
    profiler.record_event("busy", CHECKPOINT, 1)
    for _ in range(3):
        profiler.record_event("busy", RECOMPUTE, 100)
    (found,) = OptimizationRecommender().generate_recommendations(profiler.get_summary())
    assert found.type is RecommendationType.REDUCE_RECOMPUTATION
    assert found.expected_impact == "Could save 300ms of recomputation time"


def test_rules_of_your_own_are_asked_too(profiler: CheckpointProfiler) -> None:
    def rule(summary: ProfilingSummary) -> list[OptimizationRecommendation]:
        title = f"Look at {len(summary.layer_profiles)} layers"
        kind, low = RecommendationType.IMPROVE_EFFICIENCY, RecommendationPriority.LOW
        return [OptimizationRecommendation(kind, low, title, "")]

    profiler.record_event("a", RECOMPUTE, 1)
    recommender = OptimizationRecommender()
    recommender.add_rule(rule)
    found = recommender.generate_recommendations(profiler.get_summary())
    assert [one.title for one in found] == [
        "Reduce recomputation for layer 'a'",
        "Look at 1 layers",
    ]


def test_a_rule_of_your_own_that_fails_is_listed_until_it_does_not(
    profiler: CheckpointProfiler,
) -> None:
    recommender = OptimizationRecommender()
    recommender.add_rule(lambda summary: [] if summary.total_events else [1 / 0])  # type: ignore[list-item]
    assert recommender.generate_recommendations(profiler.get_summary()) == []
    assert recommender.errors[0].endswith("ZeroDivisionError: division by zero")
    profiler.record_event("a", CHECKPOINT, 1)
    recommender.generate_recommendations(profiler.get_summary())
    assert recommender.errors == []


def test_what_is_no_rule_and_no_summary_is_refused() -> None:
    wrong: Any = "text"
    with pytest.raises(UsageError, match="pass a function that takes a ProfilingSummary"):
        OptimizationRecommender().add_rule(wrong)
    with pytest.raises(UsageError, match=r"pass what get_summary\(\)"):
        OptimizationRecommender().generate_recommendations(wrong)
