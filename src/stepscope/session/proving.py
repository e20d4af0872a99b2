"""Proves in a running program that one way is faster than another: both take turns."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import replace

from stepscope.model.optimization import LEAST_GAIN, Optimization
from stepscope.model.trial import Speedup
from stepscope.stats.paired import paired_ratio

__all__ = ["prove", "prove_for"]

_LOOKS = (3, 6, 9)  # rounds after which is judged: more only where the first were not enough
_CONFIDENCE = 1.0 - 0.05 / len(_LOOKS)  # of each look, so that of all of them 5 % are wrong at most


def prove(
    old: Callable[[], float], new: Callable[[], float]
) -> tuple[Speedup | None, list[float], list[float]]:
    """(how many times as fast the new way is, seconds of the old one, of the new one), measured as
    A B B A …: what drifts on the machine meets both alike. None: nothing could be measured."""
    before: list[float] = []
    after: list[float] = []
    speedup = None
    for rounds in _LOOKS:
        while len(before) < rounds:
            _round(old, new, before, after)
        speedup = _speedup(before, after)
        if speedup is None or speedup.is_proved(LEAST_GAIN) or speedup.high < LEAST_GAIN:
            break
    return speedup, before, after


def prove_for(
    told: Optimization, figure: str, old: Callable[[], float], new: Callable[[], float]
) -> tuple[Optimization, bool]:
    """(the record with what was measured, whether the new way is proved to be worth it). figure:
    under which name the median seconds of both ways stand in the record."""
    speedup, before, after = prove(old, new)
    measured = replace(
        told,
        measured=speedup,
        before={**told.before, figure: statistics.median(before)},
        after={**told.after, figure: statistics.median(after)},
    )
    return measured, speedup is not None and speedup.is_proved(LEAST_GAIN)


def _round(
    old: Callable[[], float], new: Callable[[], float], before: list[float], after: list[float]
) -> None:
    if len(before) % 2 == 0:
        before.append(old())
        after.append(new())
    else:
        after.append(new())
        before.append(old())


def _speedup(before: list[float], after: list[float]) -> Speedup | None:
    """Round by round: both of a round met the same machine."""
    found = paired_ratio(after, before, _CONFIDENCE)  # the old time in new ones
    if found is None or found.low is None or found.high is None:
        return None
    return Speedup(found.middle, found.low, found.high, len(before))
