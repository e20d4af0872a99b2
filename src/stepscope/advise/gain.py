"""What a change is expected to gain, from the share of the finding."""

from __future__ import annotations

from stepscope.model.finding import Finding, Location

__all__ = ["at", "between"]


def between(finding: Finding, least: float, most: float = 1.0) -> tuple[float, float] | None:
    """How much faster the loop is when between `least` and `most` of the cost are saved; None
    when it is all of the time.

    >>> between(Finding("gc", "", 0.5, 0.5, 0.9), 0.0, 0.5)
    (1.0, 1.3333333333333333)
    """
    if finding.share * most >= 1.0:
        return None
    return 1.0 / (1.0 - finding.share * least), 1.0 / (1.0 - finding.share * most)


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
