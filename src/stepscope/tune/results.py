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

__all__ = ["Distance", "distance", "why_not_same"]

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


def why_not_same(
    base: Sequence[Measurement], changed: Measurement, reseeded: Measurement | None = None
) -> str:
    """Why the results of a run are not those of the program as it is; "": they are.

    reseeded: a run of the program as it is with other random numbers, where the change may draw
    them in another order: then no more is asked than that it is not further off than that one.
    """
    found = distance(base[0].losses, changed.losses)
    if found is None:
        return ""
    tolerance = _TOLERANCE.get(base[0].dtype, _TOLERANCE["float32"])
    limits = Distance(tolerance, min(_MOST_GROWN, tolerance * _GROWTH))
    for other in (*base[1:], *((reseeded,) if reseeded is not None else ())):
        own = distance(base[0].losses, other.losses)
        if own is not None:
            limits = Distance(
                max(limits.first, _OWN * own.first), max(limits.later, _OWN * own.later)
            )
    if found.first <= limits.first and found.later <= limits.later:
        return ""
    far, limit = (
        (found.first, limits.first) if found.first > limits.first else (found.later, limits.later)
    )
    return f"its losses differ by {far:.2g} of their size (at most {limit:.2g} is rounding)"
