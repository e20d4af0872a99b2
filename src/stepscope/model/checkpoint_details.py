"""The activation checkpoints that a program has: what recomputing costs, and what it saves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final, NamedTuple

from stepscope.model.checkpoint_plan import PlanReport
from stepscope.model.finding import Location
from stepscope.model.plain import Amount, Count, Range

__all__ = ["MAX_CHECKPOINTED", "CheckpointedLayer", "Checkpointing"]

MAX_CHECKPOINTED: Final = 2001  # layers; beyond that they are one


class CheckpointedLayer(NamedTuple):
    """A function or module that is recomputed; means for each step."""

    layer: str
    location: Location  # of the call of torch.utils.checkpoint
    calls: Amount
    recompute_ms: Amount
    saved_bytes: Amount | None = None  # that all its calls do not keep; None: not measured

    @property
    def bytes_per_ms(self) -> float | None:
        """What a millisecond of recomputing saves. None: not known."""
        if self.saved_bytes is None or self.recompute_ms <= 0:
            return None
        return self.saved_bytes / self.recompute_ms


@dataclass(frozen=True, slots=True)
class Checkpointing:
    """Of one process. `share`: of the loop's time, in recomputation."""

    layers: Annotated[
        tuple[CheckpointedLayer, ...], Range(0, MAX_CHECKPOINTED)
    ] = ()  # those that are least worth it first
    recompute_ms: Amount = 0.0  # a step
    share: Amount = 0.0
    steps: Count = 0
    saved_bytes: Amount | None = None  # of all layers; None: not known of all of them
    left_bytes: float | None = None  # the least under the nearest limit, while recomputing
    limit: str | None = None  # its kind: "host", "cgroup", …
    plan: PlanReport | None = None  # where one was made (`stepscope plan`)
