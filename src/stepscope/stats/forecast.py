"""When a quantity that grows reaches its limit, and what a series is going to be."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from stepscope.stats.quantiles import quantile
from stepscope.stats.student import student_t
from stepscope.stats.thinned import Point, Thinned
from stepscope.stats.trend import Trend, trend

__all__ = ["Forecast", "LimitForecast", "ValueForecast", "forecast"]

KEPT = 96  # points of all of it, at least: a stretch has to have enough of them
FEWEST = 24  # points of a stretch that is judged
REACH = 1.5  # times the time that growth was watched for, and not further, is looked ahead
# Windows, how many of them need not rise, and which part of what even growth would have given it a
# window has to rise by.
RISING = ((8, 1, 0.25), (4, 0, 0.6))
FALL = 0.25  # of the growth; when the level falls by more, what grew is given back now and then
LATE = 0.5  # the last quarter has to be so steep at least, against all
ERRORS = 4.0  # of the line, that growth has to be
STRETCHES = (
    1.0,
    0.8,
    0.64,
    0.5,
    0.4,
    0.32,
    0.25,
)  # of the points, the last ones: it may have begun late
RUNS = 24  # points that a line is drawn through
CHANGE = 1.5  # times the distance of the middles of the halves is it to that of the time to come
HIGH = 0.7  # quantile of the peaks
LEAST_SHARE = 0.01  # of the limit: growth by less may be an allocator's


class Forecast(NamedTuple):
    """seconds until the limit is reached, which lie between low_s and high_s. rate: growth a
    second. since_s: when the growth began that this goes by, at the earliest."""

    seconds: float
    low_s: float
    high_s: float
    rate: float
    since_s: float


class ValueForecast(NamedTuple):
    """The value, and the interval that the level at that place lies in (95 % if it goes on)."""

    value: float
    low: float
    high: float


class LimitForecast:
    """Watches something that should not grow for ever, such as memory.

    Growth that goes on is told from what ends: what is given back (collections, caches that are
    emptied, epochs), what has stopped, what becomes slower as it fills. Growth that has gone less
    than two fifths of the way to the limit is not extrapolated: until then a cache that fills
    evenly looks the same as a leak.

    >>> watched = LimitForecast()
    >>> for second in range(200):
    ...     watched.update(second, 100.0 + 2.0 * second)
    >>> round(watched.get(limit=700.0).seconds)
    101
    >>> watched.get(limit=7000.0) is None
    True
    """

    def __init__(self) -> None:
        self._thinned = Thinned(KEPT)
        self._last_s = -math.inf
        self._known: tuple[Point | None, Sequence[_Growth]] = (None, ())

    def update(self, time_s: float, value: float) -> None:
        """Take a value. What is not finite, or earlier than the one before, is passed by."""
        if math.isfinite(value) and time_s > self._last_s:
            self._last_s = time_s
            self._thinned.update(time_s, value)

    def get(self, limit: float) -> Forecast | None:
        """None: it is not going to reach the limit as far as can be told, or cannot be told yet."""
        for growth in self._growths():
            found = _reached(growth, self._last_s, limit)
            if found is not None:
                return found
        return None

    def _growths(self) -> Sequence[_Growth]:
        points = self._thinned.points
        if len(points) < FEWEST:
            return ()
        if self._known[0] is not points[-1]:
            self._known = points[-1], _growths(points)
        return self._known[1]


class _Growth(NamedTuple):
    """A line through a stretch that grows.

    rates: the slowest and the fastest that it may have. to_come: how much more is to be expected,
    if it slows down as it did. above: how far peaks lie above the line, a usual one (such a one is
    the first that does not fit) and the highest. highest_now: of the last values.
    """

    line: Trend
    rates: tuple[float, float]
    grown: float
    to_come: float
    since_s: float
    above: tuple[float, float]
    highest_now: float


def _reached(growth: _Growth, now_s: float, limit: float) -> Forecast | None:
    if growth.grown < LEAST_SHARE * abs(limit):
        return None
    slope = growth.line.slope
    # A line that has run ahead of what there is may be one of growth that has just ended.
    line_now = min(growth.line.intercept + slope * now_s, growth.highest_now)
    to_line = limit - line_now
    usual, highest = (max(0.0, to_line - above) for above in growth.above)
    if usual > growth.to_come or usual / slope > REACH * (now_s - growth.since_s):
        return None
    slowest, fastest = growth.rates
    low_s, high_s = highest / fastest, max(0.0, to_line) / slowest
    return Forecast(usual / slope, low_s, high_s, slope, growth.since_s)


def _growths(points: Sequence[Point]) -> list[_Growth]:
    """Of the stretches up to now that grow steadily, the longest first."""
    counts = [math.ceil(share * len(points)) for share in STRETCHES]
    judged = (
        _growth_of(points[-count:], before=points[:-count]) for count in counts if count >= FEWEST
    )
    return [growth for growth in judged if growth is not None]


def _growth_of(points: Sequence[Point], before: Sequence[Point]) -> _Growth | None:
    has_been_higher = max((point.high for point in before), default=-math.inf) > points[-1].high
    if has_been_higher or not _is_steady(points):
        return None
    lows, peaks = _extremes(points)
    # The slope comes from what lies closer to a line: with samples taken at any moment of a step
    # that is mostly what is left when a step has let go of its own.
    lines = [(line, side) for side in (lows, peaks) if (line := trend(*side)) is not None]
    if not lines:
        return None
    line, side = min(lines, key=lambda one: one[0].spread)
    halves, span = _half_slopes(*side), side[0][-1] - side[0][0]
    error = line.spread * math.sqrt(12.0 / len(side[0]))
    if min(line.slope, *halves) <= 0.0 or line.slope * span < ERRORS * error:
        return None
    # As the second half differs from the first, so the time to come may from both.
    away = 2 * error / span + CHANGE * abs(halves[1] - halves[0])
    rates = max(line.slope - away, line.slope / 4), line.slope + away
    left = [peak - line.intercept - line.slope * x for x, peak in zip(*peaks, strict=True)]
    above = max(0.0, quantile(left, HIGH) or 0.0), max(0.0, *left)
    to_come = _to_come(halves, span)
    highest_now = peaks[1][-1]
    return _Growth(line, rates, line.slope * span, to_come, points[0].x, above, highest_now)


_Side = tuple[list[float], list[float]]


def _extremes(points: Sequence[Point]) -> tuple[_Side, _Side]:
    """The lowest values of runs of neighbours, and the highest, and where: not more of them than a
    line needs."""
    edges = _edges(len(points), min(RUNS, len(points)))
    runs = [points[a:b] for a, b in pairwise(edges)]
    lowest = [min(run, key=lambda point: point.low) for run in runs]
    highest = [max(run, key=lambda point: point.high) for run in runs]
    return (
        ([point.x for point in lowest], [point.low for point in lowest]),
        ([point.x for point in highest], [point.high for point in highest]),
    )


def _edges(count: int, parts: int) -> list[int]:
    return [count * part // parts for part in range(parts + 1)]


def _is_steady(points: Sequence[Point]) -> bool:
    """By short windows, or by long ones, which have whole waves in them."""
    return any(_windows_rise(points, *rule) for rule in RISING)


def _windows_rise(points: Sequence[Point], windows: int, but: int, least: float) -> bool:
    """The lowest values of windows rise in all of them but so many, do not fall back, do not
    stop."""
    edges = pairwise(_edges(len(points), windows))
    lows = [min(point.low for point in points[a:b]) for a, b in edges]
    grown = lows[-1] - lows[0]
    even = grown / (windows - 1)
    steps = [b - a for a, b in pairwise(lows)]
    if grown <= 0.0 or sum(step <= least * even for step in steps) > but:
        return False
    quarter = windows // 4
    stopped = lows[-1] - lows[-1 - quarter] < LATE * quarter * even
    return -min(steps) <= FALL * grown and not stopped


def _half_slopes(xs: Sequence[float], peaks: Sequence[float]) -> tuple[float, float]:
    middle = len(xs) // 2
    lines = trend(xs[:middle], peaks[:middle]), trend(xs[middle:], peaks[middle:])
    first, second = (line.slope if line is not None else 0.0 for line in lines)
    return first, second


def _to_come(halves: tuple[float, float], span: float) -> float:
    """If each further half of the time grows by as much less as the second half did."""
    first, second = halves
    if second >= first:
        return math.inf
    ratio = second / first
    return second * span / 2 * ratio / (1.0 - ratio)


def forecast(xs: Sequence[float], ys: Sequence[float], at: float) -> ValueForecast | None:
    """What the level of a series is at `at`, if it goes on along its line; None: too few points.

    The interval widens with the distance: a line's slope is known only so well.

    >>> found = forecast(range(20), [100.0 - x + 0.5 * (-1) ** x for x in range(20)], at=30)
    >>> round(found.value), found.low < 70.0 < found.high
    (70, True)
    """
    line = trend(xs, ys)
    if line is None or len(xs) < 3:
        return None
    count, middle = len(xs), sum(xs) / len(xs)
    square = sum((x - middle) ** 2 for x in xs)
    error = line.spread * math.sqrt(1.0 / count + (at - middle) ** 2 / square)
    half = student_t(count - 2) * error
    value = line.intercept + line.slope * at
    return ValueForecast(value, value - half, value + half)
