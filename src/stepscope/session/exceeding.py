"""Limits that somebody set for figures of a program, judged by the monitor's rule for them."""

from __future__ import annotations

import math
from collections.abc import Mapping

from stepscope.model.watching import Reading
from stepscope.monitor.rule_settings import Threshold
from stepscope.monitor.rules.thresholds import ThresholdRule

__all__ = ["Exceeding"]


class Exceeding:
    """limits: metric → what it may reach and not exceed."""

    def __init__(self, limits: Mapping[str, float]) -> None:
        self._rules = [
            ThresholdRule(Threshold(metric=metric, above=_just_above(limit)), back_share=0.0)
            for metric, limit in limits.items()
        ]

    def update(self, time_ns: int, values: Mapping[str, float]) -> dict[str, float]:
        """Which exceed their limits now, and their values."""
        for metric, value in values.items():
            for rule in self._rules:
                rule.reading(Reading(time_ns, metric, value))
        found = [condition for rule in self._rules for condition in rule.conditions(time_ns)]
        return {one.metric: one.value for one in found if one.metric and one.value is not None}


def _just_above(limit: float) -> float:
    return math.nextafter(limit, math.inf)
