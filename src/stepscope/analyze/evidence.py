"""All that a finding can stand on: the loops, what they used, and the details behind them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from stepscope.analyze.model_calls import by_caller
from stepscope.analyze.whole import Whole
from stepscope.model.details import Details, FlameNode, PhaseStacks, StageTime
from stepscope.model.finding import Location

__all__ = ["Evidence", "UserCode", "matching_share"]


@dataclass(frozen=True, slots=True)
class UserCode:
    """A function of the user's program, at its dearest line. `share`: of the time of the phase,
    the libraries that it calls included."""

    location: Location
    share: float


@dataclass(frozen=True, slots=True)
class Evidence:
    whole: Whole
    details: Details = field(default_factory=Details)

    def trait(self, name: str) -> Any:
        """A fact about the program (model/traits.py); None: not known."""
        return self.details.traits.get(name)

    def stage(self, name: str, where: str | None = None) -> StageTime | None:
        """A stage of the input pipeline (analyze/pipeline_stages.py); `where`: None for any."""
        pipeline = self.details.pipeline
        stages = pipeline.stages if pipeline is not None else ()
        return next((s for s in stages if s.name == name and where in (None, s.where)), None)

    def stacks(self, where: str, *phases: str) -> list[PhaseStacks]:
        """`phases`: of model/phases.py, or names of spans."""
        found = self.details.stacks
        return [one for one in found if one.where == where and one.phase in phases and one.samples]

    def user_code(self, where: str, *phases: str) -> UserCode | None:
        """The user's function that these phases spend most in, at its dearest line; None: no
        stacks show one. Each stack counts for the innermost line that is the user's."""
        stacks = self.stacks(where, *phases)
        by_line: dict[Location, float] = {}
        for one in stacks:
            for line in one.lines:
                if line.location.file:
                    by_line[line.location] = by_line.get(line.location, 0.0) + one.ms * line.share
        return _dearest(by_line, sum(one.ms for one in stacks))

    def model_caller(self, *phases: str) -> UserCode | None:
        """The user's function that calls the model in these phases of the training thread, and not
        the model's own forward; None: no stacks show one."""
        stacks = self.stacks("main", *phases)
        by_line: dict[Location, float] = {}
        for one in stacks:
            for at, ms in (by_caller(one.flame) if one.flame is not None else {}).items():
                by_line[at] = by_line.get(at, 0.0) + ms
        return _dearest(by_line, sum(one.ms for one in stacks))


def _dearest(by_line: Mapping[Location, float], total_ms: float) -> UserCode | None:
    """Of the lines of each function together, at the dearest of them."""
    if not by_line or not total_ms:
        return None
    by_function: dict[tuple[str | None, str | None], float] = {}
    for at, ms in by_line.items():
        key = (at.file, at.function)
        by_function[key] = by_function.get(key, 0.0) + ms
    best = max(by_function, key=by_function.__getitem__)
    lines = [at for at in by_line if (at.file, at.function) == best]
    dearest = max(lines, key=by_line.__getitem__)
    return UserCode(dearest, min(1.0, by_function[best] / total_ms))


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
