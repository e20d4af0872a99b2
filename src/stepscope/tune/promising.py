"""Which changes are tried first: what a small gain is worth shows when the large ones are there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from stepscope.model.change import Change

__all__ = ["promising"]

_LARGE: Final = 1.15  # a gain that goes before all that are unknown or small
_BESIDE: Final = 0.25  # of the largest gain: those are tried with it


def promising(changes: Sequence[Change]) -> list[Change]:
    """Of these, what to try now. The others are left for another pass, if they still matter then.

    >>> made = [Change("a", "", {}, (2.0, 2.0)), Change("b", "", {}, (1.1, 1.1)), Change("c", "")]
    >>> [one.name for one in promising(made)]
    ['a']
    """
    most = max((one.predicted or 0.0 for one in changes), default=0.0)
    if most < _LARGE:
        return list(changes)
    least = 1.0 + _BESIDE * (most - 1.0)
    return [one for one in changes if (one.predicted or 0.0) >= least]
