"""How much more or less in one group of runs than in another, and how sure that is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from stepscope.model.comparison import Judgement, Ratio
from stepscope.stats.adjusted import adjusted_ratio
from stepscope.stats.means import typical
from stepscope.stats.paired import likeness, paired_ratio
from stepscope.stats.student import student_t
from stepscope.stats.welch import welch_ratio

__all__ = ["CONFIDENCE", "Measured", "judge", "ratio_of", "runs_needed"]

# Of the interval of each figure. Three figures are judged, each wrong on the slow side in 1.25 % of
# the comparisons of equals: together below 4 %, and less where runs differ little (see judge).
CONFIDENCE = 0.975
# How closely runs have to follow the machine's speed, or their neighbours, before that is used. In
# simulation this makes false alarms 1.5 times as frequent at worst (they stay below 2 % for a
# figure), and finds a 5 % that a changing machine hides: 85 % of the cases instead of 33 %.
_ALIKE = 0.6
_LEAST_PAIRS = 4
_MOST_RUNS = 40
_GOOD_HALF = 2 / 3  # of the effect, in an interval that proves it nine times in ten


class Measured(NamedTuple):
    """A figure of a run."""

    value: float
    started_unix: float | None = None
    reference_us: float | None = None  # how fast the machine was; None: not known, or no matter


def ratio_of(base: Sequence[Measured], new: Sequence[Measured]) -> Ratio | None:
    """new / base; None: not measured in both. The runs are the units.

    What slows the machine slows runs of both groups. Where they follow the speed that was measured
    during them, they are compared at equal speed; else, where groups took turns and neighbours
    resemble each other, pair by pair; else as they are.
    """
    before, after = [one.value for one in base], [one.value for one in new]
    if not before or not after or min(*before, *after) <= 0:
        return None
    found = _at_equal_speed(base, new) or _pair_by_pair(base, new)
    if found is not None:
        return found
    plain = welch_ratio(before, after, CONFIDENCE)
    if plain is None:
        return Ratio(typical(after) / typical(before))
    return Ratio(plain.middle, plain.low, plain.high)


def _at_equal_speed(base: Sequence[Measured], new: Sequence[Measured]) -> Ratio | None:
    if min(len(base), len(new)) < _LEAST_PAIRS:
        return None
    groups = [
        [(one.value, one.reference_us) for one in group if one.reference_us is not None]
        for group in (base, new)
    ]
    if [len(group) for group in groups] != [len(base), len(new)]:
        return None
    found = adjusted_ratio(groups[0], groups[1], CONFIDENCE)
    if found is None or found.likeness < _ALIKE:
        return None
    return Ratio(found.middle, found.low, found.high, "speed")


def _pair_by_pair(base: Sequence[Measured], new: Sequence[Measured]) -> Ratio | None:
    pairs = _pairs(base, new)
    if pairs is None or likeness(*pairs) < _ALIKE:
        return None
    found = paired_ratio(*pairs, confidence=CONFIDENCE)
    return None if found is None else Ratio(found.middle, found.low, found.high, "pairs")


def _pairs(
    base: Sequence[Measured], new: Sequence[Measured]
) -> tuple[list[float], list[float]] | None:
    """Neighbours in time, one of each group; None: the groups did not take turns."""
    if len(base) != len(new) or len(base) < _LEAST_PAIRS:
        return None
    marked = [
        (one.started_unix, which, one.value) for which, g in enumerate((base, new)) for one in g
    ]
    if any(started is None for started, _, _ in marked):
        return None
    ordered = sorted(marked, key=lambda one: one[0] or 0.0)
    couples = [
        sorted(ordered[at : at + 2], key=lambda one: one[1]) for at in range(0, len(ordered), 2)
    ]
    if any([which for _, which, _ in couple] != [0, 1] for couple in couples):
        return None
    return [couple[0][2] for couple in couples], [couple[1][2] for couple in couples]


def judge(ratio: Ratio | None, fail_over: float) -> Judgement:
    """What a ratio proves about a figure of which less is better.

    Worse: the interval lies above 1, and the estimate is at least half of `fail_over`. Half,
    because estimates scatter around the truth: asked for all of it, a true 5 % would be let pass
    every second time. The half keeps real but small changes from failing a build.
    """
    if ratio is None or ratio.low is None or ratio.high is None:
        return Judgement.UNCLEAR
    if ratio.low > 1 and ratio.middle >= 1 + fail_over / 2:
        return Judgement.WORSE
    if ratio.high < 1 and ratio.middle <= 1 / (1 + fail_over / 2):
        return Judgement.BETTER
    return Judgement.SAME if ratio.high < 1 + fail_over else Judgement.UNCLEAR


def runs_needed(ratio: Ratio, runs: int, fail_over: float) -> int | None:
    """How many runs a group would tell `fail_over` from chance, by how these differ; None: more
    than can be asked for."""
    if ratio.low is None or ratio.high is None or fail_over <= 0:
        return None
    error = math.log(ratio.high / ratio.low) / 2 / student_t(2 * runs - 2, CONFIDENCE)
    wanted = _GOOD_HALF * math.log1p(fail_over)
    for count in range(runs + 1, _MOST_RUNS + 1):
        if student_t(2 * count - 2, CONFIDENCE) * error * math.sqrt(runs / count) <= wanted:
            return count
    return None
