from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from stepscope.advise.checkpoint_rules import RULES, recommend
from stepscope.model.checkpoint_advice import (
    OptimizationRecommendation,
    RecommendationPriority,
    RecommendationType,
)
from stepscope.model.checkpoint_events import LayerProfile, ProfilingSummary

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
KIB = 1024


def layer(name: str, **fields: int) -> LayerProfile:
    """checkpoints, checkpoint_ms, recomputations, recompute_ms, hits, saved."""
    return LayerProfile(
        name,
        fields.get("checkpoints", 0),
        fields.get("checkpoint_ms", 0),
        fields.get("recomputations", 0),
        fields.get("recompute_ms", 0),
        fields.get("hits", 0),
        fields.get("saved", 0),
    )


def given(*layers: LayerProfile, **fields: Any) -> list[OptimizationRecommendation]:
    summary = ProfilingSummary(NOON, NOON, layer_profiles=layers, **fields)
    return recommend(summary).recommendations


def of(
    kind: RecommendationType, found: Iterable[OptimizationRecommendation]
) -> list[OptimizationRecommendation]:
    return [one for one in found if one.type is kind]


# ---- high recomputation ----


def test_layers_that_are_recomputed_often_are_recommended_against() -> None:
    (one,) = given(layer("block", checkpoints=2, recomputations=5, recompute_ms=1500))
    assert one.type is RecommendationType.REDUCE_RECOMPUTATION
    assert one.affected_layer_id == "block"
    assert str(one) == (
        "[High] Reduce recomputation for layer 'block': Layer 'block' is recomputed 5 times but"
        " only checkpointed 2 times. Consider increasing checkpoint frequency or using selective"
        " checkpointing."
    )
    assert one.expected_impact == "Could save 1.5s of recomputation time"
    assert one.impact_ms == 1500


def test_twice_for_each_checkpoint_is_not_too_often() -> None:
    assert given(layer("block", checkpoints=2, recomputations=4, recompute_ms=100)) == []


def test_the_three_layers_that_recompute_longest_are_listed_longest_first() -> None:
    times = {"a": 10, "b": 40, "c": 20, "d": 30}
    found = given(*(layer(name, recomputations=1, recompute_ms=ms) for name, ms in times.items()))
    assert [one.affected_layer_id for one in found] == ["b", "d", "c"]


# ---- low cache hit rate ----


def test_layers_with_few_cache_hits_are_recommended_against() -> None:
    (one,) = given(layer("block", checkpoints=12, recomputations=6, hits=3, recompute_ms=12))
    assert str(one) == (
        "[Medium] Improve cache hit rate for layer 'block': Layer 'block' has a cache hit rate of"
        " only 25%. Consider enabling recomputation cache or adjusting checkpoint strategy."
    )
    assert one.type is RecommendationType.IMPROVE_CACHE_HIT_RATE
    assert one.expected_impact == (
        "Each further hit would have saved 2ms, all of them 12ms; a cache hits only where backward"
        " runs through the same graph more than once"
    )


def test_half_of_hits_or_ten_checkpoints_are_left_alone() -> None:
    assert given(layer("half", checkpoints=12, recomputations=9, hits=6)) == []
    assert given(layer("few", checkpoints=10, recomputations=3)) == []


def test_where_nothing_was_recomputed_no_hit_is_promised_to_save_anything() -> None:
    (one,) = given(layer("block", checkpoints=11))
    assert one.expected_impact == "Nothing was recomputed: no hit could have saved anything"
    assert one.impact_ms == 0


def test_the_three_lowest_hit_rates_are_listed_lowest_first() -> None:
    rates = {"a": 3, "b": 0, "c": 2, "d": 1}
    layers = (layer(n, checkpoints=11, hits=hits, recomputations=5) for n, hits in rates.items())
    assert [one.affected_layer_id for one in given(*layers)] == ["b", "d", "c"]


# ---- low efficiency ----


def test_layers_whose_checkpoints_take_long_are_recommended_against() -> None:
    (one,) = given(layer("block", checkpoints=1, checkpoint_ms=400, recompute_ms=100, saved=1))
    assert str(one) == (
        "[Low] Improve checkpointing efficiency for layer 'block': Layer 'block' has high"
        " checkpoint overhead compared to savings. Consider skipping checkpointing for this layer"
        " or using a different strategy."
    )
    assert one.type is RecommendationType.IMPROVE_EFFICIENCY
    assert one.expected_impact == "Could reduce overhead by ~75%"


def test_three_times_as_long_and_no_savings_are_left_alone() -> None:
    assert given(layer("three", checkpoint_ms=300, recompute_ms=100, saved=1)) == []
    assert given(layer("none", checkpoint_ms=400, recompute_ms=100)) == []


def test_the_three_layers_whose_checkpoints_take_longest_are_listed_longest_first() -> None:
    times = {"a": 10, "b": 40, "c": 20, "d": 30}
    found = given(*(layer(name, checkpoint_ms=ms, saved=1) for name, ms in times.items()))
    assert [one.affected_layer_id for one in found] == ["b", "d", "c"]


# ---- the other types ----


def four_layers(last_ms: int) -> list[LayerProfile]:
    return [
        layer(name, checkpoints=2, recomputations=2, recompute_ms=ms, saved=200 * KIB)
        for name, ms in (("a", 10), ("b", 10), ("c", 10), ("d", last_ms))
    ]


def test_a_layer_that_saves_little_for_its_time_is_named_with_both() -> None:
    (one,) = given(*four_layers(last_ms=100), duration=500.0)
    assert one.type is RecommendationType.ADJUST_CHECKPOINT_STRATEGY
    assert (one.affected_layer_id, one.priority) == ("d", RecommendationPriority.HIGH)
    assert "saves 2.00KB a millisecond; the median layer saves 20.00KB" in one.description
    assert one.expected_impact == (
        "Could save 100ms of recomputation time, for 100.00KB more memory"
    )
    assert (one.impact_ms, one.impact_bytes) == (100, -100 * KIB)


def test_a_layer_that_saves_nothing_is_named_only_where_that_was_measured() -> None:
    layers = four_layers(last_ms=10)
    layers[3].total_memory_saved = 0
    assert given(*layers, duration=500.0) == []
    layers[3].measured_count = 2
    (one,) = given(*layers, duration=500.0)
    assert one.affected_layer_id == "d"
    assert one.expected_impact == "Could save 10ms of recomputation time, for 0B more memory"


def test_its_priority_is_that_of_the_time_at_stake() -> None:
    (medium,) = given(*four_layers(last_ms=100), duration=2000.0)
    (low,) = given(*four_layers(last_ms=100), duration=5000.0)
    assert medium.priority is RecommendationPriority.MEDIUM
    assert low.priority is RecommendationPriority.LOW, "the boundary itself is not above it"


def test_a_quarter_of_the_median_is_not_far_below() -> None:
    assert given(*four_layers(last_ms=40), duration=500.0) == []
    assert given(*four_layers(last_ms=100)[2:], duration=500.0) == [], "two have no median"


def test_recomputing_ahead_is_recommended_only_where_there_is_a_stream() -> None:
    layers = four_layers(last_ms=30)
    assert given(*layers) == []
    (one,) = given(*layers, can_recompute_ahead=True, duration=1000.0)
    assert one.type is RecommendationType.ENABLE_ASYNC_RECOMPUTATION
    assert one.expected_impact == "Could hide up to 30ms of recomputation time"
    assert one.priority is RecommendationPriority.MEDIUM
    assert given(layers[0], can_recompute_ahead=True) == [], "nothing to do meanwhile"


def test_more_checkpoints_are_recommended_where_these_hold_more_than_they_save() -> None:
    layers = [
        layer("a", checkpoints=2, recomputations=2, recompute_ms=20, saved=8 * KIB),
        layer("b", checkpoints=2, recomputations=2, recompute_ms=40, saved=4 * KIB),
    ]
    measured = {"peak_memory_in_use_bytes": 10 * KIB, "peak_memory_saved_bytes": 2 * KIB}
    (one,) = given(*layers, **measured)
    assert one.type is RecommendationType.INCREASE_CHECKPOINT_FREQUENCY
    assert one.expected_impact == (
        "A further layer like the average one would save 3.00KB and take 15ms each time it is"
        " recomputed"
    )
    assert one.impact_bytes == 3 * KIB
    assert given(*layers, **measured | {"peak_memory_saved_bytes": 10 * KIB}) == []
    assert given(*layers, **measured | {"peak_memory_saved_bytes": 0}) == [], "not measured"


# ---- order, and rules of the user's own ----


def test_recommendations_are_ordered_by_priority() -> None:
    found = given(
        layer("slow", checkpoint_ms=400, recompute_ms=1, saved=1),
        layer("cold", checkpoints=11, recomputations=11, recompute_ms=1),
        layer("busy", recomputations=9, recompute_ms=1),
    )
    assert [one.priority.value for one in found] == ["High", "Medium", "Low"]
    assert [one.affected_layer_id for one in found] == ["busy", "cold", "slow"]


def own(title: str, priority: RecommendationPriority, ms: float) -> OptimizationRecommendation:
    kind = RecommendationType.IMPROVE_EFFICIENCY
    return OptimizationRecommendation(kind, priority, title, "", impact_ms=ms)


def test_within_a_priority_the_rule_with_most_at_stake_comes_first() -> None:
    high, low = RecommendationPriority.HIGH, RecommendationPriority.LOW
    rules = (
        lambda _: [own("a", low, 5), own("b", high, 1), own("c", high, 3)],
        lambda _: [own("d", high, 2)],
        lambda _: [own("e", high, 9)],
        lambda _: [own("f", low, 5)],
    )
    found = recommend(ProfilingSummary(NOON, NOON), rules).recommendations
    assert [one.title for one in found] == ["e", "b", "c", "d", "a", "f"]


def test_a_rule_that_fails_is_skipped_and_told() -> None:
    def broken(summary: ProfilingSummary) -> list[OptimizationRecommendation]:
        raise KeyError(summary.total_events)

    def wrong(_: ProfilingSummary) -> Any:
        return ["text"]

    summary = ProfilingSummary(NOON, NOON, layer_profiles=(layer("busy", recomputations=9),))
    found, errors = recommend(summary, (broken, wrong, *RULES))
    assert [one.affected_layer_id for one in found] == ["busy"]
    assert [text.partition("<locals>.")[2] for text in errors] == [
        "broken: KeyError: 0",
        "wrong: TypeError: it gave str, not OptimizationRecommendation",
    ]


def test_nothing_is_recommended_where_nothing_happened() -> None:
    assert recommend(ProfilingSummary(NOON, NOON)) == ([], [])
