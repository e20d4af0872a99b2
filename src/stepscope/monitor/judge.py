"""How bad what a rule sees is: from how far it went and how long it lasts."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from stepscope.model.kinds import KINDS

__all__ = ["graded", "severity", "with_length"]

_HOUR_S: Final = 3600.0
_LONG: Final = 0.3  # of what is left to 1, that an hour adds


def severity(kind: str, share: float, lasted_s: float = 0.0) -> float:
    """0 to 1: 0.4 and 0.7 at the kind's moderate and high share, more the longer it lasts."""
    known = KINDS[kind]
    points = ((0.0, 0.0), (known.moderate_share, 0.4), (known.high_share, 0.7), (1.0, 1.0))
    return with_length(graded(share, points), lasted_s)


def with_length(severity: float, lasted_s: float) -> float:
    """What lasts costs more: an hour takes it three tenths of the way to 1.

    >>> with_length(0.5, 0.0), with_length(0.5, 3600.0)
    (0.5, 0.65)
    """
    return severity + (1.0 - severity) * _LONG * min(1.0, max(0.0, lasted_s) / _HOUR_S)


def graded(value: float, points: Sequence[tuple[float, float]]) -> float:
    """By straight lines through points, whose x rises; the nearest end's beyond them.

    >>> graded(15.0, ((10.0, 0.4), (20.0, 0.8))), graded(99.0, ((10.0, 0.4), (20.0, 0.8)))
    (0.6000000000000001, 0.8)
    """
    if value <= points[0][0]:
        return points[0][1]
    for (x0, y0), (x1, y1) in pairwise(points):
        if value <= x1 and x0 < x1:
            return y0 + (y1 - y0) * (value - x0) / (x1 - x0)
    return points[-1][1]
