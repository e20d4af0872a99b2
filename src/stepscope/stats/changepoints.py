"""Where a series of noisy figures changed its level for good."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple

from stepscope.stats.quantiles import median
from stepscope.stats.student import student_p

__all__ = ["LEAST", "ChangePoint", "change_points"]

LEAST = 3  # figures on either side: one or two odd ones are no change
_ODD = 4.0  # times the usual noise
_NORMAL = 1.4826  # makes the median deviation of normal noise its standard deviation
# How often a series of pure noise may show a change: 1 in 100. Each boundary was chosen among about
# length² / 2 pairs of stretches, so it has to be that much less likely by chance.
_FALSE = 0.01


class ChangePoint(NamedTuple):
    """From `place` on another level holds. ratio: that level against the one before it."""

    place: int
    ratio: float


def change_points(values: Sequence[float]) -> list[ChangePoint]:
    """Of positive figures, in order; [] also where there are too few to tell.

    The series is cut into stretches of one level so that what they leave unexplained, and a price
    for each cut, are least (exact: every way to cut is weighed). Cuts that chance could have made
    are taken back.

    >>> change_points([10.0, 10.1, 9.9, 10.0, 12.0, 12.1, 11.9, 12.0])
    [ChangePoint(place=4, ratio=1.200009)]
    """
    if len(values) < 2 * LEAST or min(values) <= 0:
        return []
    logs = _calmed([math.log(value) for value in values])
    cuts = _proved(logs, _cut(logs))
    edges = [0, *cuts, len(logs)]
    levels = [_mean(logs[a:b]) for a, b in pairwise(edges)]
    return [
        ChangePoint(cut, round(math.exp(after - before), 6))
        for cut, (before, after) in zip(cuts, pairwise(levels), strict=True)
    ]


def _calmed(logs: Sequence[float]) -> list[float]:
    """Figures far off the level before them and the one behind are odd: the nearer level stands
    for them."""
    limit = _ODD * _noise(logs)
    calm = []
    for place, value in enumerate(logs):
        sides = (logs[max(0, place - LEAST) : place], logs[place + 1 : place + 1 + LEAST])
        levels = [level for side in sides if (level := median(side)) is not None]
        nearer = min(levels, key=lambda level: abs(value - level))
        calm.append(nearer if abs(value - nearer) > limit > 0 else value)
    return calm


def _noise(logs: Sequence[float]) -> float:
    """How far figures of one level lie from it: from neighbours, which a change parts only once."""
    steps = [b - a for a, b in pairwise(logs)]
    return _NORMAL * (median(abs(step) for step in steps) or 0.0) / math.sqrt(2)


def _cut(logs: Sequence[float]) -> list[int]:
    """The places where stretches begin, but the first: least squares and a price for each."""
    count = len(logs)
    sums = [0.0, *accumulate(logs)]
    squares = [0.0, *accumulate(value * value for value in logs)]
    price = 2.0 * max(_noise(logs), 1e-9) ** 2 * math.log(count)
    best = [math.inf] * (count + 1)
    came_from = [0] * (count + 1)
    best[0] = 0.0
    for end in range(LEAST, count + 1):
        for start in (0, *range(LEAST, end - LEAST + 1)):
            left = squares[end] - squares[start] - (sums[end] - sums[start]) ** 2 / (end - start)
            cost = best[start] + left + (price if start else 0.0)
            if cost < best[end]:
                best[end], came_from[end] = cost, start
    cuts = []
    at = came_from[count]
    while at:
        cuts.append(at)
        at = came_from[at]
    return cuts[::-1]


def _proved(logs: Sequence[float], cuts: list[int]) -> list[int]:
    """Without the least likely cuts, one after the other: each widens its neighbours' stretches."""
    limit = _FALSE * 2 / len(logs) ** 2
    while cuts:
        edges = [0, *cuts, len(logs)]
        chances = [
            _chance(logs[a:b], logs[b:c])
            for a, b, c in zip(edges, edges[1:], edges[2:], strict=False)
        ]
        worst = max(range(len(cuts)), key=chances.__getitem__)
        if chances[worst] < limit:
            break
        cuts = cuts[:worst] + cuts[worst + 1 :]
    return cuts


def _chance(before: Sequence[float], after: Sequence[float]) -> float:
    """How likely two stretches of one level differ as much as these."""
    degrees = len(before) + len(after) - 2
    means = _mean(before), _mean(after)
    left = sum((v - means[0]) ** 2 for v in before) + sum((v - means[1]) ** 2 for v in after)
    difference = means[1] - means[0]
    if abs(difference) < 1e-12:
        return 1.0
    error = math.sqrt(left / degrees * (1 / len(before) + 1 / len(after)))
    return student_p(difference / error, degrees) if error else 0.0


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
