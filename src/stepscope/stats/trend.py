"""A straight line through noisy points that outliers do not bend (Theil–Sen)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, pairwise
from typing import NamedTuple

from stepscope.stats.quantiles import median

__all__ = ["POINTS", "Trend", "thin", "trend"]

POINTS = 200  # every pair is looked at: 19,900 of them, some 10 ms
_NORMAL = 1.4826  # makes the median deviation of normal noise its standard deviation


class Trend(NamedTuple):
    """slope: per unit of x. spread: how far points usually lie from the line, in units of y."""

    slope: float
    intercept: float
    spread: float


def trend(xs: Sequence[float], ys: Sequence[float]) -> Trend | None:
    """The line whose slope is the median of those of all pairs; None: all points at one place.

    Up to 29 % of the points may be wild without any effect to speak of. Of more than POINTS
    points, neighbours are taken together first.

    >>> trend([0, 1, 2, 3, 4], [0, 2, 4, 6, 500])
    Trend(slope=2.0, intercept=0.0, spread=0.0)
    """
    xs, ys = thin(xs, ys)
    pairs = combinations(zip(xs, ys, strict=True), 2)
    slope = median((y2 - y1) / (x2 - x1) for (x1, y1), (x2, y2) in pairs if x2 != x1)
    if slope is None:
        return None
    intercept = median(y - slope * x for x, y in zip(xs, ys, strict=True)) or 0.0
    away = median(abs(y - intercept - slope * x) for x, y in zip(xs, ys, strict=True)) or 0.0
    return Trend(slope, intercept, _NORMAL * away)


def thin(
    xs: Sequence[float], ys: Sequence[float], points: int = POINTS
) -> tuple[list[float], list[float]]:
    """At most so many points: each the median of a run of neighbours, or the point itself.

    >>> thin([1, 2, 3, 4, 5, 6], [1, 9, 2, 5, 5, 90], points=2)
    ([2.0, 5.0], [2.0, 5.0])
    """
    if len(xs) <= points:
        return list(xs), list(ys)
    edges = [len(xs) * part // points for part in range(points + 1)]
    runs = list(pairwise(edges))
    return [median(xs[a:b]) or 0.0 for a, b in runs], [median(ys[a:b]) or 0.0 for a, b in runs]
