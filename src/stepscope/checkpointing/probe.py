"""What recomputing really costs, against what the profile says: tried in the training itself.

A profile knows how long a forward takes. Run again in backward it takes more or less: memory that
was just freed is at hand, caches hold other things, and watching operators has its price. So all
that could be recomputed is, for a few steps, and the difference tells by how much to correct.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterable
from functools import partial
from statistics import median, stdev
from typing import TYPE_CHECKING, Final, NamedTuple

from stepscope.checkpointing.candidates import Candidate, disjoint
from stepscope.checkpointing.meter import Meter
from stepscope.checkpointing.trial import Trial
from stepscope.model.checkpoint_plan import ALL, CHEAP, RECOMPUTED, CheckpointPlan

if TYPE_CHECKING:
    from stepscope.checkpointing.manager import CheckpointManager

__all__ = ["Corrections", "corrected", "probe"]

ROUNDS: Final = 4
_NOTHING: Final = "nothing"
# A candidate that holds more than this share of the calls is a container of others.
_CONTAINER_SHARE: Final = 0.34
_USUAL: Final = 0.25  # how far real and predicted cost usually lie apart, as a share
# What lies beyond is noise: a machine that did something else meanwhile.
_LEAST, _MOST = 0.5, 2.0


class Corrections(NamedTuple):
    """Real times predicted recompute time, by what is recomputed. 1.0: as predicted, or unknown."""

    of_all: float = 1.0
    of_cheap: float = 1.0

    def of(self, recompute: str) -> float:
        return self.of_cheap if recompute == CHEAP else self.of_all


def corrected(found: Iterable[Candidate], by: Corrections) -> list[Candidate]:
    return [
        one._replace(recompute_ms=one.recompute_ms * by.of(one.segment.recompute)) for one in found
    ]


def probe(
    found: list[Candidate], manager: CheckpointManager, meter: Meter
) -> Generator[None, None, Corrections]:
    """Each yield is a step of the training. The manager has nothing applied before and after."""
    # Also where there is nothing to try: ranks have to take the same number of steps.
    tried = {mode: _widest(found, mode) for mode in RECOMPUTED}
    arms: dict[str, Callable[[], object]] = {_NOTHING: manager.remove}
    for mode, ones in tried.items():
        plan = CheckpointPlan(tuple(one.segment for one in ones))
        arms[mode] = partial(manager.apply, plan)
    trial = Trial(meter, arms, ROUNDS, steps=1)
    yield from trial.run()
    manager.remove()
    factors = {
        mode: _factor(trial.round_ms[_NOTHING], trial.round_ms[mode], ones)
        for mode, ones in tried.items()
    }
    return Corrections(factors[ALL], factors[CHEAP])


def _widest(found: list[Candidate], recompute: str) -> list[Candidate]:
    """As much as can be recomputed at once, module by module."""
    calls = max((calls.stop for one in found for calls in one.calls), default=0)
    modules = [
        one
        for one in found
        if one.segment.recompute == recompute
        and one.segment.first is None
        and one.size <= _CONTAINER_SHARE * calls
    ]
    modules.sort(key=lambda one: -one.recompute_ms)
    return [modules[at] for at in disjoint(modules)]


def _factor(before_ms: list[float], after_ms: list[float], tried: list[Candidate]) -> float:
    """What was measured counts as far as it is sure: where rounds differ by more than the
    correction itself, the profile is the better guess."""
    predicted_ms = sum(one.recompute_ms for one in tried)
    differences = [b - a for a, b in zip(before_ms, after_ms, strict=True)]
    if predicted_ms <= 0 or len(differences) < 2:
        return 1.0
    error = stdev(differences) / math.sqrt(len(differences)) / predicted_ms
    weight = _USUAL**2 / (_USUAL**2 + error**2)
    factor = 1.0 + weight * (median(differences) / predicted_ms - 1.0)
    return min(_MOST, max(_LEAST, factor))
