"""How bad and how sure: figures that every finding is given by the same rules."""

from __future__ import annotations

from itertools import pairwise

from stepscope.analyze.whole import Whole
from stepscope.model.kinds import KINDS
from stepscope.model.phases import Phase

__all__ = ["confidence", "graded", "likely", "own_part", "separation", "severity"]


def severity(kind: str, share: float) -> float:
    """0 to 1, by the kind's moderate and high share."""
    return graded(share, KINDS[kind].moderate_share, KINDS[kind].high_share)


def graded(share: float, moderate: float, high: float) -> float:
    """0 to 1: straight lines through 0.4 and 0.7 at a moderate and a high share."""
    points = ((0.0, 0.0), (moderate, 0.4), (high, 0.7), (1.0, 1.0))
    for (x0, y0), (x1, y1) in pairwise(points):
        if share <= x1 and x0 < x1:
            return y0 + (y1 - y0) * (share - x0) / (x1 - x0)
    return 1.0


def separation(share: float | None) -> float:
    """How well a figure between two rivals tells them apart: 0 in the middle, 1 at either end.

    `share`: how much of the evidence speaks for one of the two. None: there is no evidence.
    """
    return 0.0 if share is None else abs(share - 0.5) * 2


def own_part(own_bytes: float | None, used_bytes: float | None) -> float | None:
    """Share of the memory in use that is this program's own; None: one of them is not known."""
    if own_bytes is None or not used_bytes:
        return None
    return min(1.0, own_bytes / used_bytes)


def confidence(whole: Whole, *phases: Phase, separated: float = 1.0) -> float:
    """0 to 1: is the share stable, is the time explained, is the cause told from its rival.

    Of two rivals without evidence for either, one is named with the confidence of a thrown coin.
    """
    return whole.stability(*phases) * whole.coverage * likely(separated)


def likely(separated: float | None) -> float:
    """0.5 to 1: a thrown coin without evidence, sure where it tells the cause from its rival."""
    return 0.5 + 0.5 * (separated or 0.0)
