"""Whether one group of runs is slower, when the machine was not equally fast for all of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from stepscope.stats.student import student_t

__all__ = ["AdjustedRatio", "adjusted_ratio"]


class AdjustedRatio(NamedTuple):
    """after / before at equal speed of the machine, with the interval that it lies in.

    likeness: how closely the figures of a group follow the speed: 1 exactly, 0 not at all.
    """

    middle: float
    low: float
    high: float
    likeness: float


class _Sums(NamedTuple):
    x: float  # means
    y: float
    xx: float  # sums of squares around them
    xy: float
    yy: float


def adjusted_ratio(
    before: Sequence[tuple[float, float]],
    after: Sequence[tuple[float, float]],
    confidence: float = 0.95,
) -> AdjustedRatio | None:
    """Analysis of covariance on logarithms. Each run: its figure, and what work that is always the
    same took during it.

    How the figure follows the speed is taken from runs of the same group, so a change between the
    groups cannot pass for it. None: fewer than four runs in all, or nothing to follow.

    >>> runs = [(10.0, 1.0), (11.0, 1.1), (12.0, 1.2)]
    >>> found = adjusted_ratio(runs, [(1.05 * figure, speed) for figure, speed in runs])
    >>> round(found.middle, 6), round(found.likeness, 6)
    (1.05, 1.0)
    """
    count = len(before) + len(after)
    if count < 4 or not before or not after or min(map(min, (*before, *after))) <= 0:
        return None
    old, new = _sums(before), _sums(after)
    xx, xy, yy = old.xx + new.xx, old.xy + new.xy, old.yy + new.yy
    if not xx or not yy:
        return None
    slope = xy / xx
    apart = new.x - old.x
    middle = (new.y - old.y) - slope * apart
    left = max(0.0, yy - slope * xy) / (count - 3)
    error = math.sqrt(left * (1 / len(before) + 1 / len(after) + apart**2 / xx))
    half = student_t(count - 3, confidence) * error
    return AdjustedRatio(
        math.exp(middle), math.exp(middle - half), math.exp(middle + half), xy / math.sqrt(xx * yy)
    )


def _sums(runs: Sequence[tuple[float, float]]) -> _Sums:
    ys = [math.log(figure) for figure, _ in runs]
    xs = [math.log(speed) for _, speed in runs]
    x, y = math.fsum(xs) / len(xs), math.fsum(ys) / len(ys)
    return _Sums(
        x,
        y,
        math.fsum((one - x) ** 2 for one in xs),
        math.fsum((a - x) * (b - y) for a, b in zip(xs, ys, strict=True)),
        math.fsum((one - y) ** 2 for one in ys),
    )
