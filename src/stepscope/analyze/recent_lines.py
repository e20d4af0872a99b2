"""Stacks of the last minute → the line of the user's where a program stands, or became slower."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from stepscope.model.details import PhaseStacks
from stepscope.model.finding import Location

__all__ = ["GrownLine", "grown_line", "heaviest_line", "standing_line"]


class GrownLine(NamedTuple):
    """Time of a line in a second of the run, before and after: 0.2 is a fifth of the time."""

    location: Location
    before: float
    after: float
    share: float  # of what all lines grew by


def standing_line(stacks: Iterable[PhaseStacks]) -> tuple[Location, str, float] | None:
    """Where nearly all of the time went: the line, its phase, and its share. None: nothing was
    seen, or no line of the user's."""
    spent: dict[tuple[Location, str], float] = {}
    total_ms = 0.0
    for one in stacks:
        total_ms += one.ms
        for line in one.lines:
            if line.location.file:
                key = (line.location, one.phase)
                spent[key] = spent.get(key, 0.0) + line.share * one.ms
    if not spent:
        return None
    location, phase = best = max(spent, key=spent.__getitem__)
    return location, phase, spent[best] / total_ms


def heaviest_line(stacks: Iterable[PhaseStacks], phase: str) -> tuple[Location, float] | None:
    """The line of that phase that takes most, and its share of all the time that was seen. None: no
    line of the user's was seen in it."""
    rates = _rates(stacks, phase)
    if not rates:
        return None
    best = max(rates, key=rates.__getitem__)
    return best, rates[best]


def grown_line(
    before: Iterable[PhaseStacks], after: Iterable[PhaseStacks], phase: str, ratio: float
) -> GrownLine | None:
    """The line of that phase that takes the most longer than before, for each step.

    ratio: how much longer a step is now. The two stretches need not be equally long. None: no line
    of the user's takes longer.
    """
    then, now = _rates(before, phase), _rates(after, phase)
    grown = {line: now[line] * ratio - then.get(line, 0.0) for line in now}
    more = {line: by for line, by in grown.items() if by > 0}
    if not more:
        return None
    best = max(more, key=more.__getitem__)
    return GrownLine(best, then.get(best, 0.0), now[best], more[best] / sum(more.values()))


def _rates(stacks: Iterable[PhaseStacks], phase: str) -> dict[Location, float]:
    """By line: its share of all the time that was seen."""
    stacks = list(stacks)
    total_ms = sum(one.ms for one in stacks)
    if not total_ms:
        return {}
    rates: dict[Location, float] = {}
    for one in stacks:
        if one.phase != phase:
            continue
        for line in one.lines:
            if line.location.file:
                share = line.share * one.ms / total_ms
                rates[line.location] = rates.get(line.location, 0.0) + share
    return rates
