"""Steps before and after → which phases grew, and whether more than noise explains."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

from stepscope.model.phases import Phase
from stepscope.model.watching import StepSeen
from stepscope.monitor.steps import own_s
from stepscope.monitor.words import duration
from stepscope.stats.quantiles import median

__all__ = ["Grown", "grown_phases", "is_slower", "plain_steps"]

_TOLD: Final = 3  # phases that grew
_ODD: Final = 2.0  # times the median
_PART: Final = 0.1  # of the growth, from which on a phase is named
_ERRORS: Final = 2.5  # standard errors
_BLOCK: Final = 8  # neighbours
_BLOCKS: Final = 6  # of them, to tell how much they differ


class Grown(NamedTuple):
    """A phase, in seconds a step."""

    phase: str
    before_s: float
    after_s: float

    @property
    def by_s(self) -> float:
        return self.after_s - self.before_s

    def __str__(self) -> str:
        return f"{self.phase}: {duration(self.before_s)} → {duration(self.after_s)} a step"


def grown_phases(before: Sequence[StepSeen], after: Sequence[StepSeen]) -> list[Grown]:
    """The phases that have most of the growth, most first; those with little of it left out."""
    earlier, later = _means_s(before), _means_s(after)
    found = [
        Grown(phase, earlier.get(phase, 0.0), after_s)
        for phase, after_s in later.items()
        if phase != Phase.PROFILING
    ]
    found = sorted((one for one in found if one.by_s > 0.0), key=lambda one: -one.by_s)
    total_s = sum(one.by_s for one in found)
    return [one for one in found[:_TOLD] if one.by_s >= _PART * total_s]


def plain_steps(steps: Sequence[StepSeen]) -> list[StepSeen]:
    """Without odd ones: single long steps say little about phases."""
    usual_ns = median(seen.duration_ns for seen in steps) or 0.0
    return [seen for seen in steps if seen.duration_ns <= _ODD * usual_ns]


def is_slower(before: Sequence[StepSeen], after: Sequence[StepSeen], least: float) -> bool:
    """Steps are, by their means: by more than a share and more than their noise explains."""
    if len(before) < 2 or len(after) < 2:
        return False
    earlier, later = list(map(own_s, before)), list(map(own_s, after))
    error = math.sqrt(_variance(earlier) / len(earlier) + _variance(later) / len(later))
    more = _mean(later) - _mean(earlier)
    return more >= max(least * _mean(earlier), _ERRORS * error)


def _variance(values: Sequence[float]) -> float:
    """Of a value, as it tells in means of many: more than its own where neighbours are alike."""
    blocks = [_mean(values[at : at + _BLOCK]) for at in range(0, len(values), _BLOCK)]
    of_blocks = _BLOCK * _own_variance(blocks) if len(blocks) >= _BLOCKS else 0.0
    return max(_own_variance(values), of_blocks)


def _own_variance(values: Sequence[float]) -> float:
    mean = _mean(values)
    return math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1)


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def _means_s(steps: Sequence[StepSeen]) -> dict[str, float]:
    """Of each phase, a step."""
    phases = {phase for seen in steps for phase in seen.phases_ns}
    return {
        phase: sum(seen.phases_ns.get(phase, 0) for seen in steps) / len(steps) / 1e9
        for phase in phases
    }
