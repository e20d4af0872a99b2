"""Whether a program that runs with a change still learns the same.

Losses are compared step by step, with a tolerance by dtype: the first ones closely, later ones by
their means, for rounding that differs grows with every step. A program whose own runs differ is
held to how much they do.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, median
from typing import Final, NamedTuple

from stepscope.model.trial import Measurement

__all__ = ["Distance", "distance", "limits", "why_apart"]

_FIRST: Final = 10  # losses that are compared one by one
_PARTS: Final = 5  # of the rest, compared by their means
_TOLERANCE: Final = {"float64": 1e-9, "float32": 1e-3, "bfloat16": 3e-2, "float16": 1e-2}
_GROWTH: Final = 50.0  # how much further means of later losses may lie apart
_MOST_GROWN: Final = 0.1
_OWN: Final = 3.0  # times the distance of two runs of the program as it is


class Distance(NamedTuple):
    """How far two runs are apart, relative to the size of a loss."""

    first: float  # the most, of the first losses
    later: float  # the most, of the means of parts


def distance(one: Sequence[float], other: Sequence[float]) -> Distance | None:
    """None: there is nothing to compare.

    >>> distance([2.0, 1.0], [2.0, 1.0])
    Distance(first=0.0, later=0.0)
    """
    count = min(len(one), len(other))
    if not count:
        return None
    size = max(median(abs(value) for value in one[:count]), 1e-12)
    first = max(_gap(a, b, size) for a, b in zip(one[:_FIRST], other[:_FIRST], strict=False))
    length = max(1, -(-count // _PARTS))
    later = max(
        _gap(fmean(one[at : at + length]), fmean(other[at : at + length]), size)
        for at in range(0, count, length)
    )
    return Distance(first, later)


def _gap(one: float, other: float, size: float) -> float:
    if not (math.isfinite(one) and math.isfinite(other)):
        return 0.0 if repr(one) == repr(other) else math.inf
    return abs(one - other) / max(abs(one), size)


def limits(runs: Sequence[Measurement]) -> Distance:
    """How far a run may be from the first of these and still learn the same: as far as rounding
    takes it, or some times as far as the others are."""
    tolerance = _TOLERANCE.get(runs[0].dtype, _TOLERANCE["float32"])
    found = Distance(tolerance, min(_MOST_GROWN, tolerance * _GROWTH))
    for other in runs[1:]:
        own = distance(runs[0].losses, other.losses)
        if own is not None:
            found = Distance(max(found.first, _OWN * own.first), max(found.later, _OWN * own.later))
    return found


def why_apart(one: Measurement, other: Measurement, most: Distance) -> str:
    """Why the losses of two runs are not the same; "": they are."""
    found = distance(one.losses, other.losses)
    if found is None or (found.first <= most.first and found.later <= most.later):
        return ""
    far, limit = (
        (found.first, most.first) if found.first > most.first else (found.later, most.later)
    )
    return f"its losses differ by {far:.2g} of their size (at most {limit:.2g} is rounding)"
