"""How sure a share of time is: what part of a whole went somewhere, over a run of windows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from stepscope.stats.student import student_t

__all__ = ["share_half_width"]

BLOCKS = 20


def share_half_width(parts: Sequence[float], wholes: Sequence[float]) -> float | None:
    """Half a 95 % interval around sum(parts) / sum(wholes); None: fewer than two windows.

    Windows stand in the order of time. Neighbours resemble each other, so whole blocks of them are
    left out in turn (the jackknife) and not single ones.
    """
    blocks = _blocks(parts, wholes)
    count = len(blocks)
    if count < 2:
        return None
    part, whole = sum(p for p, _ in blocks), sum(w for _, w in blocks)
    without = [(part - p) / (whole - w) for p, w in blocks if whole > w]
    if len(without) < 2:
        return None
    centre = sum(without) / len(without)
    variance = (count - 1) / count * sum((share - centre) ** 2 for share in without)
    return student_t(count - 1) * math.sqrt(variance)


def _blocks(parts: Sequence[float], wholes: Sequence[float]) -> list[tuple[float, float]]:
    """Sums over up to BLOCKS runs of neighbours of about equal length; empty ones left out."""
    count = min(BLOCKS, len(parts))
    edges = [len(parts) * block // count for block in range(count + 1)] if count else []
    sums = [(float(sum(parts[a:b])), float(sum(wholes[a:b]))) for a, b in pairwise(edges)]
    return [(part, whole) for part, whole in sums if whole > 0]
