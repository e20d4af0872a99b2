"""What a change is expected to gain, from the share of the finding."""

from __future__ import annotations

from typing import Final

from stepscope.model.finding import Finding, Location

__all__ = ["about", "at", "between", "decidable"]

# How far the gain of a fix was from the share that it removes, in nine of ten programs of the
# generator (tests/faults/generate): the fix leaves something, and shares are measured.
DOUBT: Final = 1.1
WIDEST: Final = 2.0  # a range whose ends are further apart decides nothing


def between(finding: Finding, least: float, most: float = 1.0) -> tuple[float, float] | None:
    """How much faster the loop is when between `least` and `most` of the cost are saved, where
    both are known from what the change does; None when it is all of the time, or anything.

    >>> [round(end, 2) for end in between(Finding("gc", "", 0.5, 0.5, 0.9), 0.8, 1.0)]
    [1.52, 2.0]
    """
    if finding.saved * most >= 1.0:
        return None
    low, high = 1.0 / (1.0 - finding.saved * least), 1.0 / (1.0 - finding.saved * most)
    return decidable((about(low)[0], high))


def about(gain: float) -> tuple[float, float]:
    """A gain of at least 1 that was computed, with the doubt that is left."""
    return max(1.0, gain / DOUBT), gain


def decidable(expected: tuple[float, float]) -> tuple[float, float] | None:
    """None: the range is so wide that the gain is not known."""
    low, high = expected
    return expected if high <= WIDEST * low else None


def at(location: Location) -> str:
    """Where, as part of a sentence; "" when that is not known.

    >>> at(Location("train.py", 12, "step")), at(Location(layer="stem.conv")), at(Location())
    (' in step (train.py:12)', ' in stem.conv', '')
    """
    if location.file is not None:
        return f" in {location.function or 'the line'} ({location.file}:{location.line})"
    return f" in {location.layer}" if location.layer else ""
