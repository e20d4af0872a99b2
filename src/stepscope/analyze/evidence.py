"""All that a finding can stand on: the loops, what they used, and the details behind them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from stepscope.analyze.whole import Whole
from stepscope.model.details import Details, FlameNode, HotLine, PhaseStacks, StageTime
from stepscope.model.finding import Location

__all__ = ["Evidence", "UserCode", "matching_share"]

_SELF = 0.1  # a line with less time of its own does not stand out by it


@dataclass(frozen=True, slots=True)
class UserCode:
    """A line of the user's program. `share`: of the time of the phase, what it calls included."""

    location: Location
    share: float


@dataclass(frozen=True, slots=True)
class Evidence:
    whole: Whole
    details: Details = field(default_factory=Details)

    def trait(self, name: str) -> Any:
        """A fact about the program (model/traits.py); None: not known."""
        return self.details.traits.get(name)

    def stage(self, name: str) -> StageTime | None:
        """A stage of the input pipeline (model/details.py); None: it was not measured."""
        pipeline = self.details.pipeline
        stages = pipeline.stages if pipeline is not None else ()
        return next((stage for stage in stages if stage.name == name), None)

    def stacks(self, where: str, *phases: str) -> list[PhaseStacks]:
        """`phases`: of model/phases.py, or names of spans."""
        found = self.details.stacks
        return [one for one in found if one.where == where and one.phase in phases and one.samples]

    def user_code(self, where: str, *phases: str) -> UserCode | None:
        """The line of the user's that these phases spent most in; None: no stacks show one.

        A line counts by its own time. Where libraries take all of it, by what it calls: of the
        lines on the way there, the innermost.
        """
        stacks = self.stacks(where, *phases)
        total_ms = sum(one.ms for one in stacks)
        lines = [(one.ms, line) for one in stacks for line in one.lines]
        if not lines or not total_ms:
            return None
        ms, line = max(lines, key=lambda pair: pair[0] * pair[1].self_share)
        if ms * line.self_share < _SELF * total_ms:
            ms, line = _innermost(lines)
        return UserCode(line.location, ms * line.share / total_ms)


def _innermost(lines: Iterable[tuple[float, HotLine]]) -> tuple[float, HotLine]:
    """Of nested lines, which share their time, the one with the least that is still most of it."""
    by_time = sorted(lines, key=lambda pair: -pair[0] * pair[1].share)
    most = by_time[0][0] * by_time[0][1].share
    return [pair for pair in by_time if pair[0] * pair[1].share >= most / 2][-1]


def matching_share(stacks: Iterable[PhaseStacks], wanted: Callable[[FlameNode], bool]) -> float:
    """How much of the stacks' time lies below functions that are wanted. 0 without stacks."""
    known = [one for one in stacks if one.flame is not None]
    total_ms = sum(one.ms for one in known)
    found_ms = sum(_below(one.flame, wanted) for one in known if one.flame is not None)
    return min(1.0, found_ms / total_ms) if total_ms else 0.0


def _below(node: FlameNode, wanted: Callable[[FlameNode], bool]) -> float:
    if wanted(node):
        return node.ms
    return sum(_below(child, wanted) for child in node.children)
