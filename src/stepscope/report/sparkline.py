"""A series of numbers as one line of small bars."""

from __future__ import annotations

from collections.abc import Sequence

from stepscope.report.glyphs import Glyphs

__all__ = ["bars", "fitted"]

_BARS, _PLAIN_BARS = "▁▂▃▄▅▆▇█", "_.-~=+*#"


def bars(values: Sequence[float | None], glyphs: Glyphs, low: float, high: float) -> str:
    """One bar a value, from the lowest at `low` to the highest at `high`; a blank for None."""
    levels = _BARS if glyphs.unicode else _PLAIN_BARS
    span = high - low
    # Differences of less than 1 % are drawn as none: a flat line should look flat.
    if span <= 0.01 * abs(high):
        return "".join(" " if value is None else levels[0] for value in values)
    return "".join(_bar(value, levels, low, span) for value in values)


def _bar(value: float | None, levels: str, low: float, span: float) -> str:
    if value is None:
        return " "
    part = min(1.0, max(0.0, (value - low) / span))
    return levels[round(part * (len(levels) - 1))]


def fitted(points: Sequence[float | None], width: int) -> list[float | None]:
    """As many as there are columns: neighbours become their mean, or one stands in several."""
    if not points or width <= 0:
        return []
    return [
        _mean(points[place * len(points) // width : _behind(place, width, len(points))])
        for place in range(width)
    ]


def _behind(place: int, width: int, count: int) -> int:
    return max((place + 1) * count // width, place * count // width + 1)


def _mean(points: Sequence[float | None]) -> float | None:
    known = [point for point in points if point is not None]
    return sum(known) / len(known) if known else None
