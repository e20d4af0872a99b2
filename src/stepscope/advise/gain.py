"""What a change is expected to gain, from the share of the finding."""

from __future__ import annotations

from typing import Final

from stepscope.model.finding import Finding, Location, gain_between

__all__ = ["at", "between", "decidable"]

WIDEST: Final = 2.0  # a range whose ends are further apart decides nothing


def between(finding: Finding, least: float, most: float = 1.0) -> tuple[float, float] | None:
    """How much faster the loop is when between `least` and `most` of the cost are saved, where
    both are known from what the change does; None when it is all of the time, or anything.

    >>> [round(end, 2) for end in between(Finding("gc", "", 0.5, 0.5, 0.9), 0.8, 1.0)]
    [1.56, 2.22]
    """
    if finding.saved * most >= 1.0:
        return None
    return decidable(gain_between(finding.saved * least, finding.saved * most))


def decidable(expected: tuple[float, float]) -> tuple[float, float] | None:
    """None: the range is so wide that the gain is not known."""
    low, high = expected
    return expected if high <= WIDEST * low else None


def at(location: Location) -> str:
    """Where, as part of a sentence; "" when that is not known.

    >>> at(Location("train.py", 12, "step")), at(Location(layer="stem.conv")), at(Location())
    (' in step (train.py:12)', ' in stem.conv', '')
    >>> at(Location("train.py", 12, "<module>"))
    ' in line 12 of train.py'
    """
    if location.file is not None and location.function not in (None, "<module>"):
        return f" in {location.function} ({location.file}:{location.line})"
    if location.file is not None:
        return f" in line {location.line} of {location.file}"
    return f" in {location.layer}" if location.layer else ""
