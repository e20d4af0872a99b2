"""A model's steps → the problem whose answer is a plan."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, NamedTuple

from stepscope.checkpointing.candidates import Candidate, Overheads, candidates_of
from stepscope.checkpointing.choosing import bare
from stepscope.checkpointing.meter import Meter
from stepscope.checkpointing.overheads import measure_overheads
from stepscope.checkpointing.pieces import Profiled
from stepscope.checkpointing.policies import is_kept
from stepscope.checkpointing.profile import Profile
from stepscope.checkpointing.solve import Choice, Problem
from stepscope.errors import UsageError
from stepscope.model.checkpoint_plan import CheckpointPlan

__all__ = ["Posed", "pose", "pose_profiled"]


class Posed(NamedTuple):
    problem: Problem
    found: list[Candidate]
    peaks: list[int]  # of the steps that were profiled

    def plan(self, choice: Choice, budget_bytes: int | None) -> CheckpointPlan:
        return CheckpointPlan(tuple(self.found[at].segment for at in choice.chosen), budget_bytes)


def pose(model: Any, meter: Meter) -> Generator[None, None, Posed]:
    """Each yield is a step of the training, which has warmed up."""
    inside = bare(model)
    meter.settle()
    profile = Profile(inside, meter, is_kept)
    yield from profile.run()
    assert profile.profiled is not None
    if not profile.profiled.windows.calls:
        raise UsageError(
            "The model was not called with gradients in the steps that were looked at: it is"
            " compiled, or it is not what is trained. Compiled models are planned by torch"
            " itself: torch._functorch.config.activation_memory_budget."
        )
    overheads = measure_overheads(meter, next(inside.parameters()).device)
    return pose_profiled(profile.profiled, overheads, profile.peaks)


def pose_profiled(profiled: Profiled, overheads: Overheads, peaks: list[int]) -> Posed:
    found = candidates_of(profiled, overheads)
    marks = profiled.windows.marks
    lives = [one.live_bytes for one in marks]
    return Posed(Problem([one.peak_bytes for one in marks], lives, found), found, peaks)
