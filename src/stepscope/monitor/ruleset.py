"""The rules that are switched on, made from their settings."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

from stepscope.errors import UsageError
from stepscope.model.watching import Condition
from stepscope.monitor.registry import RuleFactory, registered_rules
from stepscope.monitor.rule import Rule
from stepscope.monitor.rule_settings import Common, Custom
from stepscope.monitor.rules.anomaly import AnomalyRule
from stepscope.monitor.rules.garbage import GarbageRule
from stepscope.monitor.rules.gpu_starved import GpuStarvedRule
from stepscope.monitor.rules.loader import LoaderRule
from stepscope.monitor.rules.loss import LossRule
from stepscope.monitor.rules.memory import MemoryRule
from stepscope.monitor.rules.rank_behind import RankBehindRule
from stepscope.monitor.rules.slowdown import SlowdownRule
from stepscope.monitor.rules.stall import StallRule
from stepscope.monitor.rules.thresholds import ThresholdRule
from stepscope.monitor.rules.throttling import ThrottlingRule
from stepscope.monitor.rules.throughput import ThroughputRule
from stepscope.monitor.settings import WatchSettings

__all__ = ["Entry", "entries"]


class Entry(NamedTuple):
    """A rule at work. is_custom: its conditions go by the name it was registered with."""

    name: str
    rule: Rule
    hold_s: float
    capture: bool
    is_custom: bool = False

    def hears(self, method: str) -> bool:
        """The rule has a method of its own for that."""
        return getattr(type(self.rule), method) is not getattr(Rule, method)

    def conditions(self, now_ns: int) -> list[Condition]:
        """Raises what the rule raises, and TypeError where a user's says what is no condition."""
        found = list(self.rule.conditions(now_ns))
        return [self._checked(one) for one in found] if self.is_custom else found

    def _checked(self, condition: Any) -> Condition:
        if not isinstance(condition, Condition) or not isinstance(condition.began_ns, int):
            raise TypeError("conditions() has to give values of Condition")
        figures = condition.severity, condition.confidence, condition.share, condition.rank
        if not all(isinstance(one, int | float) for one in figures):
            raise TypeError("severity, confidence, share and rank have to be numbers")
        return replace(condition, rule=self.name, title=str(condition.title))


def entries(settings: WatchSettings) -> list[Entry]:
    """Raises UsageError where a rule of the user's own cannot be made."""
    return [*_ours(settings), *_thresholds(settings), *_custom(settings)]


def _ours(settings: WatchSettings) -> Iterator[Entry]:
    rules = settings.rules
    made: tuple[tuple[str, Common, Callable[[Any], Rule]], ...] = (
        ("stall", rules.stall, StallRule),
        ("slowdown", rules.slowdown, SlowdownRule),
        ("throughput", rules.throughput, ThroughputRule),
        ("anomaly", rules.anomaly, AnomalyRule),
        ("memory", rules.memory, MemoryRule),
        ("gpu_starved", rules.gpu_starved, GpuStarvedRule),
        ("throttling", rules.throttling, ThrottlingRule),
        ("loader", rules.loader, LoaderRule),
        ("gc", rules.gc, GarbageRule),
        ("rank_behind", rules.rank_behind, RankBehindRule),
        ("loss", rules.loss, LossRule),
    )
    for name, common, make in made:
        if common.enabled:
            hold_s = settings.watch.hold_s if common.hold_s is None else common.hold_s
            yield Entry(name, make(common), hold_s, common.capture)


def _thresholds(settings: WatchSettings) -> Iterator[Entry]:
    for place, threshold in enumerate(settings.thresholds, 1):
        if threshold.enabled:
            rule = ThresholdRule(threshold)
            yield Entry(f"threshold {place}", rule, 0.0, threshold.capture)


def _custom(settings: WatchSettings) -> Iterator[Entry]:
    factories = registered_rules()
    for custom in settings.custom:
        if custom.enabled and custom.name in factories:
            rule = _made(custom, factories[custom.name])
            hold_s = custom.hold_s or 0.0
            yield Entry(custom.name, rule, hold_s, custom.capture, is_custom=True)


def _made(custom: Custom, factory: RuleFactory) -> Rule:
    try:
        rule = factory(custom.options)
    except Exception as error:
        raise UsageError(
            f"The rule {custom.name!r} cannot be made: {type(error).__name__}: {error}"
        ) from error
    if not isinstance(rule, Rule):
        raise UsageError(f"What was registered as {custom.name!r} has to make a Rule.")
    return rule
