"""Which parts of a model are recomputed in backward instead of kept, and what that costs and saves.

A plan is what a `CheckpointManager` applies; a `PlanReport` is what planning found out on the way.
None: not measured.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final, NamedTuple

from stepscope.model.plain import Amount, Count, Known, Range

__all__ = [
    "ALL",
    "CHEAP",
    "PLAN_SCHEMA",
    "RECOMPUTED",
    "BlockCost",
    "CheckpointPlan",
    "Outcome",
    "PlanPoint",
    "PlanReport",
    "Segment",
]

PLAN_SCHEMA: Final = 1
ALL: Final = "all"  # everything in the segment is computed again
# The results of matrix products, convolutions and attention are kept; what is cheap to compute
# again is computed again.
CHEAP: Final = "cheap"
RECOMPUTED: Final = (ALL, CHEAP)
_MAX_BLOCKS: Final = 2001


class Segment(NamedTuple):
    """What is recomputed at one go: a module, or a run of the children of an nn.Sequential."""

    module: str  # its name in the model, as named_modules has it; "": the model itself
    recompute: Annotated[str, Known(RECOMPUTED)] = ALL
    first: Count | None = None  # of a Sequential: the children from `first` on …
    last: Count | None = None  # … to this one, which belongs to it

    @property
    def label(self) -> str:
        """`blocks.3`, or `blocks[2..5]` for a run."""
        name = self.module or "(model)"
        return name if self.first is None else f"{name}[{self.first}..{self.last}]"


@dataclass(frozen=True, slots=True)
class CheckpointPlan:
    """What a CheckpointManager applies. No two segments overlap."""

    segments: tuple[Segment, ...]
    budget_bytes: Count | None = None  # that it was made for


class Outcome(NamedTuple):
    """Of a step: the most bytes of tensors that were live, and how long it took."""

    peak_bytes: Count
    step_ms: Amount
    # Of measured ones: the interval that the ratio to the step without the plan lies in (95 %).
    ratio_low: Amount | None = None
    ratio_high: Amount | None = None
    steps: Count = 0  # that were measured; 0: predicted
    ratio: Amount | None = None  # in the middle of that interval: round by round


class BlockCost(NamedTuple):
    """A part that could be recomputed, as it was profiled."""

    segment: Segment
    saved_bytes: Count  # that need not be kept from its forward to its backward
    recompute_ms: Amount
    is_planned: bool  # the plan recomputes it
    is_present: bool = False  # the program recomputes it by itself

    @property
    def bytes_per_ms(self) -> float | None:
        """What a millisecond of recomputing saves. None: it costs nothing that was seen."""
        return self.saved_bytes / self.recompute_ms if self.recompute_ms > 0 else None


class PlanPoint(NamedTuple):
    """Of the trade-off: none that was found is faster with as small a peak."""

    peak_bytes: Count
    step_ms: Amount
    segments: Count  # how many are recomputed


@dataclass(frozen=True, slots=True)
class PlanReport:
    """What planning found out. Written as plan.json into the run folder."""

    plan: CheckpointPlan
    baseline: Outcome  # nothing recomputed, measured
    present: Outcome | None  # as the program stands, where it has checkpoints of its own
    predicted: Outcome
    measured: Outcome  # with the plan applied
    curve: Annotated[
        tuple[PlanPoint, ...], Range(0, _MAX_BLOCKS)
    ]  # from the largest peak to the smallest
    blocks: Annotated[tuple[BlockCost, ...], Range(0, _MAX_BLOCKS)]  # in the order of forward
    smallest_peak_bytes: Count  # that any plan reaches
    notes: tuple[str, ...] = ()  # what the reader has to know, in whole sentences
