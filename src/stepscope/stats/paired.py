"""Whether one of two ways is faster, from rounds in which both were timed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from stepscope.stats.student import student_t

__all__ = ["Ratio", "likeness", "paired_ratio"]


class Ratio(NamedTuple):
    """How many times as long, with the interval that it lies in. None: too few rounds."""

    middle: float
    low: float | None
    high: float | None


def paired_ratio(
    before: Sequence[float], after: Sequence[float], confidence: float = 0.95
) -> Ratio | None:
    """after / before, round by round, on logarithms; None: nothing to compare.

    >>> paired_ratio([10.0, 20.0, 40.0], [11.0, 22.0, 44.0]).middle
    1.1
    """
    logs = [math.log(b / a) for a, b in zip(before, after, strict=True) if a > 0 and b > 0]
    if not logs:
        return None
    middle = sum(logs) / len(logs)
    if len(logs) < 2:
        return Ratio(round(math.exp(middle), 12), None, None)
    spread = math.sqrt(sum((one - middle) ** 2 for one in logs) / (len(logs) - 1))
    half = student_t(len(logs) - 1, confidence) * spread / math.sqrt(len(logs))
    low, high = math.exp(middle - half), math.exp(middle + half)
    return Ratio(round(math.exp(middle), 12), low, high)


def likeness(before: Sequence[float], after: Sequence[float]) -> float:
    """How far both go up and down together: 1 always, 0 not at all (the correlation of logarithms).

    >>> round(likeness([10.0, 20.0, 40.0], [11.0, 22.0, 44.0]), 6), likeness([1.0, 2.0], [3.0, 3.0])
    (1.0, 0.0)
    """
    ups, downs = _centred(before), _centred(after)
    size = math.sqrt(sum(a * a for a in ups) * sum(b * b for b in downs))
    return sum(a * b for a, b in zip(ups, downs, strict=True)) / size if size else 0.0


def _centred(values: Sequence[float]) -> list[float]:
    logs = [math.log(value) for value in values]
    middle = sum(logs) / len(logs)
    return [one - middle for one in logs]
