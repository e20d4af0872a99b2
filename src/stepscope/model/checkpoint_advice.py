"""What could be done about checkpointing: the recommendations of OptimizationRecommender."""

from __future__ import annotations

import enum
from dataclasses import dataclass

__all__ = ["OptimizationRecommendation", "RecommendationPriority", "RecommendationType"]


class RecommendationType(enum.Enum):
    REDUCE_RECOMPUTATION = "reduce_recomputation"
    IMPROVE_CACHE_HIT_RATE = "improve_cache_hit_rate"
    IMPROVE_EFFICIENCY = "improve_efficiency"
    ADJUST_CHECKPOINT_STRATEGY = "adjust_checkpoint_strategy"
    ENABLE_ASYNC_RECOMPUTATION = "enable_async_recomputation"
    INCREASE_CHECKPOINT_FREQUENCY = "increase_checkpoint_frequency"


class RecommendationPriority(enum.Enum):
    HIGH = "High"
    MEDIUM = "Medium"
    LOW = "Low"


@dataclass(frozen=True, slots=True)
class OptimizationRecommendation:
    """A change to make, and what it would bring."""

    type: RecommendationType
    priority: RecommendationPriority
    title: str
    description: str
    affected_layer_id: str | None = None  # None: not one layer alone
    expected_impact: str = ""  # in words
    impact_ms: float = 0.0  # of the time that was profiled, what it could save at most
    impact_bytes: int = 0  # of memory, likewise

    def __str__(self) -> str:
        return f"[{self.priority.value}] {self.title}: {self.description}"
