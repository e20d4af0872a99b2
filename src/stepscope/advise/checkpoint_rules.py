"""ProfilingSummary → what to change about checkpointing, with an impact that is computed from it.

The first three rules have the thresholds, order, priorities and texts of the source document,
except for one impact: the document promises "+30 points" of cache hit rate, which no measurement
supports, so ours is the time that further hits would have saved. The priorities of the other rules
follow from the share of the profiled time that is at stake.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple, TypeAlias

from stepscope.model.checkpoint_advice import (
    OptimizationRecommendation,
    RecommendationPriority,
    RecommendationType,
)
from stepscope.model.checkpoint_events import (
    LayerProfile,
    ProfilingSummary,
    format_bytes,
    format_ms,
)
from stepscope.stats.quantiles import median

__all__ = ["RULES", "Advice", "Rule", "recommend"]

Rule: TypeAlias = Callable[[ProfilingSummary], Iterable[OptimizationRecommendation]]

MOST_LISTED: Final = 3  # layers, by each rule
MOST_RECOMPUTED: Final = 2  # times a checkpoint
LEAST_CHECKPOINTS: Final = 10  # before hits are judged
LEAST_HIT_RATE: Final = 0.5
MOST_OVERHEAD: Final = 3  # times what recomputing takes
FAR_BELOW: Final = 0.25  # of what the median layer saves in a millisecond
LEAST_LAYERS: Final = 3  # that a median needs
HIGH_SHARE: Final = 0.1  # of the profiled time
MEDIUM_SHARE: Final = 0.02

_ORDER = {priority: at for at, priority in enumerate(RecommendationPriority)}


def reduce_recomputation(summary: ProfilingSummary) -> Iterable[OptimizationRecommendation]:
    """Layers that are recomputed more than twice for each checkpoint."""
    found = [
        one
        for one in summary.layer_profiles
        if one.recompute_count > one.checkpoint_count * MOST_RECOMPUTED
    ]
    for layer in sorted(found, key=lambda one: -one.total_recompute_time_ms)[:MOST_LISTED]:
        yield OptimizationRecommendation(
            RecommendationType.REDUCE_RECOMPUTATION,
            RecommendationPriority.HIGH,
            f"Reduce recomputation for layer '{layer.layer_id}'",
            f"Layer '{layer.layer_id}' is recomputed {layer.recompute_count} times "
            f"but only checkpointed {layer.checkpoint_count} times. "
            "Consider increasing checkpoint frequency or using selective checkpointing.",
            layer.layer_id,
            f"Could save {format_ms(layer.total_recompute_time_ms)} of recomputation time",
            layer.total_recompute_time_ms,
        )


def improve_cache_hit_rate(summary: ProfilingSummary) -> Iterable[OptimizationRecommendation]:
    """Layers with fewer than one cache hit for every two checkpoints."""
    found = [
        one
        for one in summary.layer_profiles
        if one.checkpoint_count > LEAST_CHECKPOINTS and one.cache_hit_rate < LEAST_HIT_RATE
    ]
    for layer in sorted(found, key=lambda one: one.cache_hit_rate)[:MOST_LISTED]:
        yield OptimizationRecommendation(
            RecommendationType.IMPROVE_CACHE_HIT_RATE,
            RecommendationPriority.MEDIUM,
            f"Improve cache hit rate for layer '{layer.layer_id}'",
            f"Layer '{layer.layer_id}' has a cache hit rate of only {layer.cache_hit_rate:.0%}. "
            "Consider enabling recomputation cache or adjusting checkpoint strategy.",
            layer.layer_id,
            _impact_of_hits(layer),
            layer.total_recompute_time_ms,
        )


def _impact_of_hits(layer: LayerProfile) -> str:
    if not layer.recompute_count:
        return "Nothing was recomputed: no hit could have saved anything"
    return (
        f"Each further hit would have saved {format_ms(layer.average_recompute_time_ms)}, all of"
        f" them {format_ms(layer.total_recompute_time_ms)}; a cache hits only where backward runs"
        " through the same graph more than once"
    )


def improve_efficiency(summary: ProfilingSummary) -> Iterable[OptimizationRecommendation]:
    """Layers whose checkpoints take more than three times as long as recomputing them."""
    found = [
        one
        for one in summary.layer_profiles
        if one.total_memory_saved > 0
        and one.total_checkpoint_time_ms > one.total_recompute_time_ms * MOST_OVERHEAD
    ]
    for layer in sorted(found, key=lambda one: -one.total_checkpoint_time_ms)[:MOST_LISTED]:
        more_ms = layer.total_checkpoint_time_ms - layer.total_recompute_time_ms
        yield OptimizationRecommendation(
            RecommendationType.IMPROVE_EFFICIENCY,
            RecommendationPriority.LOW,
            f"Improve checkpointing efficiency for layer '{layer.layer_id}'",
            f"Layer '{layer.layer_id}' has high checkpoint overhead compared to savings. "
            "Consider skipping checkpointing for this layer or using a different strategy.",
            layer.layer_id,
            f"Could reduce overhead by ~{int(more_ms * 100 / layer.total_checkpoint_time_ms)}%",
            more_ms,
        )


def adjust_checkpoint_strategy(summary: ProfilingSummary) -> Iterable[OptimizationRecommendation]:
    """Layers whose recomputation saves far less memory a millisecond than that of the median."""
    rates = {
        at: _saved_bytes(one) / one.average_recompute_time_ms
        for at, one in enumerate(summary.layer_profiles)
        if one.total_recompute_time_ms > 0 and _is_known(one)
    }
    middle = median(rates.values())
    if middle is None or len(rates) < LEAST_LAYERS:
        return
    found = [summary.layer_profiles[at] for at, rate in rates.items() if rate < middle * FAR_BELOW]
    for layer in sorted(found, key=lambda one: -one.total_recompute_time_ms)[:MOST_LISTED]:
        rate = _saved_bytes(layer) / layer.average_recompute_time_ms
        saved_bytes = round(_saved_bytes(layer))
        yield OptimizationRecommendation(
            RecommendationType.ADJUST_CHECKPOINT_STRATEGY,
            _priority(layer.total_recompute_time_ms, summary),
            f"Do not checkpoint layer '{layer.layer_id}'",
            f"Recomputing layer '{layer.layer_id}' saves {format_bytes(round(rate))} a millisecond;"
            f" the median layer saves {format_bytes(round(middle))}. Let it keep its activations,"
            " and checkpoint others if memory is short.",
            layer.layer_id,
            f"Could save {format_ms(layer.total_recompute_time_ms)} of recomputation time, for"
            f" {format_bytes(saved_bytes)} more memory",
            layer.total_recompute_time_ms,
            -saved_bytes,
        )


def enable_async_recomputation(summary: ProfilingSummary) -> Iterable[OptimizationRecommendation]:
    """Where the engine has a stream to recompute ahead on, and more than one layer to recompute.

    What backward needs first cannot be had ahead; which layer that is, is not known, so the one
    that takes longest is left out.
    """
    times_ms = [one.total_recompute_time_ms for one in summary.layer_profiles]
    ahead_ms = sum(times_ms) - max(times_ms, default=0.0)
    if summary.can_recompute_ahead and ahead_ms > 0:
        yield OptimizationRecommendation(
            RecommendationType.ENABLE_ASYNC_RECOMPUTATION,
            _priority(ahead_ms, summary),
            "Recompute ahead of backward",
            "The device has a stream to spare: the next segment can be recomputed while backward"
            " is at work on the one before it. Switch prefetching on in the recomputation engine.",
            None,
            f"Could hide up to {format_ms(ahead_ms)} of recomputation time",
            ahead_ms,
        )


def increase_checkpoint_frequency(
    summary: ProfilingSummary,
) -> Iterable[OptimizationRecommendation]:
    """Where checkpoints hold more memory than they save at the peak, both measured."""
    saved, held = summary.peak_memory_saved_bytes, summary.peak_memory_in_use_bytes
    layers = [
        one for one in summary.layer_profiles if one.total_memory_saved and one.recompute_count
    ]
    if not 0 < saved < held or not layers:
        return
    each_bytes = round(sum(_saved_bytes(one) for one in layers) / len(layers))
    each_ms = sum(one.average_recompute_time_ms for one in layers) / len(layers)
    yield OptimizationRecommendation(
        RecommendationType.INCREASE_CHECKPOINT_FREQUENCY,
        RecommendationPriority.LOW,
        "Checkpoint more layers",
        f"Checkpoints hold up to {format_bytes(held)} and save {format_bytes(saved)} at the peak,"
        f" with {len(layers)} layers that are recomputed. If memory is short, checkpoint more of"
        " them, or larger parts at once.",
        None,
        f"A further layer like the average one would save {format_bytes(each_bytes)} and take"
        f" {format_ms(each_ms)} each time it is recomputed",
        impact_bytes=each_bytes,
    )


RULES: Final[tuple[Rule, ...]] = (
    reduce_recomputation,
    improve_cache_hit_rate,
    improve_efficiency,
    adjust_checkpoint_strategy,
    enable_async_recomputation,
    increase_checkpoint_frequency,
)


class Advice(NamedTuple):
    """errors: what went wrong in rules, in words; these gave nothing."""

    recommendations: list[OptimizationRecommendation]
    errors: list[str]


def recommend(summary: ProfilingSummary, rules: Sequence[Rule] = RULES) -> Advice:
    """By priority; within one, the rule with the most at stake comes first, and what a rule gives
    stays in the rule's own order."""
    groups: list[list[OptimizationRecommendation]] = []
    errors = []
    for rule in rules:
        try:
            given = [_checked(one) for one in rule(summary)]
        except Exception as error:  # noqa: BLE001 - a rule of the user's: the others go on
            name = getattr(rule, "__qualname__", repr(rule))
            errors.append(f"{name}: {type(error).__name__}: {error}")
            continue
        groups += [[one for one in given if one.priority is level] for level in _ORDER]
    ranked = sorted(filter(None, groups), key=_rank)
    return Advice([one for group in ranked for one in group], errors)


def _rank(group: list[OptimizationRecommendation]) -> tuple[int, float, int]:
    most_ms = max(one.impact_ms for one in group)
    most_bytes = max(one.impact_bytes for one in group)
    return _ORDER[group[0].priority], -most_ms, -most_bytes


def _checked(one: object) -> OptimizationRecommendation:
    if not isinstance(one, OptimizationRecommendation):
        raise TypeError(f"it gave {type(one).__name__}, not OptimizationRecommendation")
    return one


def _is_known(layer: LayerProfile) -> bool:
    """What it saves: what was told by hand without bytes is not."""
    return layer.total_memory_saved > 0 or layer.measured_count > 0


def _saved_bytes(layer: LayerProfile) -> float:
    """By one checkpoint."""
    return layer.total_memory_saved / max(1, layer.checkpoint_count)


def _priority(at_stake_ms: float, summary: ProfilingSummary) -> RecommendationPriority:
    if at_stake_ms > HIGH_SHARE * summary.duration:
        return RecommendationPriority.HIGH
    if at_stake_ms > MEDIUM_SHARE * summary.duration:
        return RecommendationPriority.MEDIUM
    return RecommendationPriority.LOW
