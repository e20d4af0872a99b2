"""A model's steps → the problem whose answer is a plan."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, NamedTuple

from stepscope.checkpointing.candidates import Candidate, Overheads, candidates_of
from stepscope.checkpointing.choosing import bare
from stepscope.checkpointing.meter import Meter
from stepscope.checkpointing.overheads import measure_overheads
from stepscope.checkpointing.pieces import Profiled
from stepscope.checkpointing.policies import CHEAPLY
from stepscope.checkpointing.probe import Corrections, corrected, probe
from stepscope.checkpointing.profile import Profile
from stepscope.checkpointing.solve import Choice, Problem
from stepscope.errors import UsageError
from stepscope.model.checkpoint_plan import CheckpointPlan

if TYPE_CHECKING:
    from stepscope.checkpointing.manager import CheckpointManager

__all__ = ["Posed", "Seen", "look", "pose", "pose_seen"]


class Posed(NamedTuple):
    problem: Problem
    found: list[Candidate]
    peaks: list[int]  # of the steps that were profiled

    def plan(self, choice: Choice, budget_bytes: int | None) -> CheckpointPlan:
        return CheckpointPlan(tuple(self.found[at].segment for at in choice.chosen), budget_bytes)


class Seen(NamedTuple):
    """What has to be known of a model's steps."""

    profiled: Profiled
    overheads: Overheads
    peaks: list[int]
    corrections: Corrections = Corrections()


def pose(
    model: Any,
    meter: Meter,
    manager: CheckpointManager,
    check: Callable[[Posed], None] = lambda _: None,
) -> Generator[None, None, Posed]:
    """Each yield is a step of the training, which has warmed up. manager: of the model, with
    nothing applied. check: is shown it before costs are tried; peaks are known by then."""
    seen = yield from look(model, meter)
    first = pose_seen(seen)
    check(first)
    corrections = yield from probe(first.found, manager, meter)
    return pose_seen(seen._replace(corrections=corrections))


def look(model: Any, meter: Meter) -> Generator[None, None, Seen]:
    inside = bare(model)
    meter.settle()
    profile = Profile(inside, meter, CHEAPLY)
    yield from profile.run()
    assert profile.profiled is not None
    if not profile.profiled.windows.calls:
        raise UsageError(
            "The model was not called with gradients in the steps that were looked at: it is"
            " compiled, or it is not what is trained. Compiled models are planned by torch"
            " itself: torch._functorch.config.activation_memory_budget."
        )
    overheads = measure_overheads(meter, next(inside.parameters()).device)
    return Seen(profile.profiled, overheads, profile.peaks)


def pose_seen(seen: Seen) -> Posed:
    found = corrected(candidates_of(seen.profiled, seen.overheads), seen.corrections)
    marks = seen.profiled.windows.marks
    lives = [one.live_bytes for one in marks]
    return Posed(Problem([one.peak_bytes for one in marks], lives, found), found, seen.peaks)
