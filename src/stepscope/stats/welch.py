"""Whether one group of runs is slower than another: the runs are the units, not their steps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from stepscope.stats.student import student_p, student_t

__all__ = ["RatioTest", "welch_ratio"]


class RatioTest(NamedTuple):
    """after / before, with the interval that it lies in.

    p: how likely a ratio as far from 1 as this one is where there is no difference.
    runs: before and after.
    """

    middle: float
    low: float
    high: float
    p: float
    runs: tuple[int, int]


class _Logs(NamedTuple):
    mean: float
    error_square: float  # of the mean
    runs: int


def welch_ratio(
    before: Sequence[float], after: Sequence[float], confidence: float = 0.95
) -> RatioTest | None:
    """Welch's test on logarithms: groups may differ in size and in how much their runs differ.

    None: fewer than two runs in a group, or a figure that has no logarithm.

    >>> found = welch_ratio([100, 102, 98], [110, 111, 109])
    >>> round(found.middle, 3), round(found.low, 2), round(found.high, 2), found.p < 0.01
    (1.1, 1.05, 1.15, True)
    >>> welch_ratio([100], [110]) is None
    True
    """
    if min(len(before), len(after)) < 2 or min(*before, *after) <= 0:
        return None
    old, new = _logs(before), _logs(after)
    difference = new.mean - old.mean
    error_square = old.error_square + new.error_square
    runs = (old.runs, new.runs)
    if not error_square:  # all runs of a group alike
        ratio = math.exp(difference)
        return RatioTest(ratio, ratio, ratio, 0.0 if difference else 1.0, runs)
    degrees = error_square**2 / sum(one.error_square**2 / (one.runs - 1) for one in (old, new))
    error = math.sqrt(error_square)
    half = student_t(degrees, confidence) * error
    return RatioTest(
        middle=math.exp(difference),
        low=math.exp(difference - half),
        high=math.exp(difference + half),
        p=student_p(difference / error, degrees),
        runs=runs,
    )


def _logs(values: Sequence[float]) -> _Logs:
    logs = [math.log(value) for value in values]
    count = len(logs)
    mean = math.fsum(logs) / count
    variance = math.fsum((one - mean) ** 2 for one in logs) / (count - 1)
    return _Logs(mean, variance / count, count)
