"""Memory over time → whether it leaks. Memory that grows and stops is no leak."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from stepscope.stats.trend import POINTS, trend

__all__ = ["FLOOR_BYTES", "Growth", "judge_growth"]

WARM_UP = 1 / 4  # of the samples: models, caches and pools are being filled
WINDOWS, FEWEST_WINDOWS = 8, 4
SAMPLES_EACH = 3  # in a window, at least
# Allocators take memory in pieces: Python 1 MiB, torch on a GPU 2 MiB. Less than a few of them may
# be one more piece that is never given back, and is none of the program's growth.
FLOOR_BYTES = 4 << 20
ERRORS = 4  # the growth has to be so many standard errors of a line through so much noise
EVEN = 1 / 4  # a window grows if it has so much of what an even growth would have given it
SLOWING = 1 / 2  # the second half to the first, and the last quarter to all: at least so steep
FALL = 1 / 4  # of the growth; when a window falls by more, memory is given back now and then


@dataclass(frozen=True)
class Growth:
    """leaks: None when it cannot be told. why: the reason for the verdict, a sentence.

    slope (bytes per unit of `when`) and grown_bytes describe the line through the samples after
    warm-up, whether it is a leak or not. growing_windows: how many of the `windows` lie above the
    one before them.
    """

    leaks: bool | None
    slope: float | None
    grown_bytes: float | None
    windows: int
    growing_windows: int
    why: str


class _Least(NamedTuple):
    """What has to have grown, for two reasons."""

    floor: float
    noise: float


def judge_growth(points: Sequence[tuple[float, float]], floor_bytes: float = FLOOR_BYTES) -> Growth:
    """Whether memory leaks, from samples (when, bytes) that were taken at moments that compare:
    within an operation, or at the ends of steps. `when` has any unit: `slope` is per that unit.
    `floor_bytes`: growth that is below it may be an allocator's.

    A leak grows steadily after warm-up: its lowest level rises in all windows but one at most, by
    more than noise and more than allocators take at once, without slowing down and without falling
    back. So garbage that is collected, a cache that fills, a step and noise are none.
    """
    known = sorted((when, size) for when, size in points if math.isfinite(size))
    warm = math.ceil(len(known) * WARM_UP)
    watched = known[warm:]
    count = min(WINDOWS, len(watched) // SAMPLES_EACH)
    line = trend([when for when, _ in watched], [size for _, size in watched])
    if count < FEWEST_WINDOWS or line is None:
        needed = math.ceil(FEWEST_WINDOWS * SAMPLES_EACH / (1 - WARM_UP))
        return Growth(None, None, None, 0, 0, f"Too few samples: {len(known)} of {needed} or more.")
    levels = _levels(known, warm, count)
    grown = line.slope * (watched[-1][0] - watched[0][0])
    growing = _growing(levels)
    noise = line.spread * max(1.0, ERRORS * math.sqrt(12 / min(len(watched), POINTS)))
    why_not = _no_leak(levels, grown, _Least(floor_bytes, noise), growing)
    why = why_not or f"It grew in {growing} of {count} windows, without slowing down."
    return Growth(not why_not, line.slope, grown, count, growing, why)


def _levels(known: Sequence[tuple[float, float]], warm: int, count: int) -> list[float]:
    """The lowest sample of each window, garbage being what lies above it; before them that of the
    end of warm-up, so that the first window has something to grow from."""
    edges = [warm + (len(known) - warm) * part // count for part in range(count + 1)]
    start = max(0, warm - (edges[1] - edges[0]))
    return [min(size for _, size in known[a:b]) for a, b in pairwise([start, *edges])]


def _growing(levels: Sequence[float]) -> int:
    even = (levels[-1] - levels[0]) / (len(levels) - 1)
    return sum(b - a > max(0.0, EVEN * even) for a, b in pairwise(levels))


def _no_leak(levels: Sequence[float], grown: float, least: _Least, growing: int) -> str:
    """What speaks against a leak; "": nothing."""
    count = len(levels) - 1
    if grown < least.floor:
        return f"It grew by less than {least.floor / 2**20:g} MiB, which allocators take at once."
    if grown < least.noise:
        return "It did not grow by more than its usual ups and downs."
    if growing < count - 1:
        return f"It grew in {growing} of {count} windows only: in steps, or until it was full."
    if max(a - b for a, b in pairwise(levels)) > FALL * grown:
        return "It falls back now and then: what grew was given back."
    if _slows_down(levels):
        return "It grows more and more slowly, as a cache does that fills."
    return ""


def _slows_down(levels: Sequence[float]) -> bool:
    count = len(levels) - 1
    middle, quarter = levels[count // 2], count // 4
    first, second = middle - levels[0], levels[-1] - middle
    late, all_of_it = levels[-1] - levels[-1 - quarter], levels[-1] - levels[0]
    return second < SLOWING * first or late < SLOWING * all_of_it * quarter / count
