"""When a quantity that grows reaches its limit, and what a series is going to be."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from stepscope.stats.student import student_t
from stepscope.stats.thinned import Point, Thinned
from stepscope.stats.trend import Trend, trend

__all__ = ["Forecast", "LimitForecast", "ValueForecast", "forecast"]

FEWEST = 24  # points of a stretch that is judged
WINDOWS = 8
REACH = 1.5  # times the time that growth was watched for, and not further, is looked ahead
EVEN = 0.25  # a window grows if it has so much of what even growth would have given it
FALL = 0.25  # of the growth; when the level falls by more, what grew is given back now and then
LATE = 0.5  # the last quarter has to be so steep at least, against all
ERRORS = 4.0  # of the line, that growth has to be
STRETCHES = (1.0, 0.75, 0.5, 0.35, 0.25)  # of the points, the last ones: it may have begun late
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
    100
    >>> watched.get(limit=7000.0) is None
    True
    """

    def __init__(self) -> None:
        self._thinned = Thinned()
        self._last_s = -math.inf
        self._known: tuple[Point | None, _Growth | None] = (None, None)

    def update(self, time_s: float, value: float) -> None:
        """Take a value. What is not finite, or earlier than the one before, is passed by."""
        if math.isfinite(value) and time_s > self._last_s:
            self._last_s = time_s
            self._thinned.update(time_s, value)

    def get(self, limit: float) -> Forecast | None:
        """None: it is not going to reach the limit as far as can be told, or cannot be told yet."""
        growth = self._growth()
        now_s = self._last_s
        if growth is None or growth.grown < LEAST_SHARE * abs(limit):
            return None
        left = limit - growth.line.intercept - growth.line.slope * now_s
        if left <= 0.0:
            return Forecast(0.0, 0.0, 0.0, growth.line.slope, growth.since_s)
        if left > growth.to_come:
            return None
        seconds = [
            left / rate for rate in (max(growth.rates), growth.line.slope, min(growth.rates))
        ]
        if seconds[1] > REACH * (now_s - growth.since_s):
            return None
        low_s, middle_s, high_s = seconds
        return Forecast(middle_s, low_s, high_s, growth.line.slope, growth.since_s)

    def _growth(self) -> _Growth | None:
        points = self._thinned.points
        if len(points) < FEWEST:
            return None
        if self._known[0] is not points[-1]:
            self._known = points[-1], _latest_growth(points)
        return self._known[1]


class _Growth(NamedTuple):
    """A line through the peaks of a stretch that grows; rates: the slowest and the fastest that it
    may have. to_come: how much more is to be expected, if it slows down as it did."""

    line: Trend
    rates: tuple[float, float]
    grown: float
    to_come: float
    since_s: float


def _latest_growth(points: Sequence[Point]) -> _Growth | None:
    """Of the longest stretch up to now that grows steadily."""
    for share in STRETCHES:
        count = math.ceil(share * len(points))
        if count < FEWEST:
            break
        found = _growth_of(points[-count:], before=points[:-count])
        if found is not None:
            return found
    return None


def _growth_of(points: Sequence[Point], before: Sequence[Point]) -> _Growth | None:
    xs = [point.x for point in points]
    line = trend(xs, [point.high for point in points])
    if line is None or line.slope <= 0.0:
        return None
    grown = line.slope * (xs[-1] - xs[0])
    error = line.spread * math.sqrt(12.0 / len(points))
    if grown < ERRORS * error or not _is_steady(points, grown):
        return None
    if max((point.high for point in before), default=-math.inf) > points[-1].high:
        return None  # it has been higher, and came back
    halves = _half_slopes(points)
    if min(halves) <= 0.0:
        return None
    span = xs[-1] - xs[0]
    rates = (*halves, line.slope - 2 * error / span, line.slope + 2 * error / span)
    slowest, fastest = max(min(rates), line.slope / 4), max(rates)
    return _Growth(line, (slowest, fastest), grown, _to_come(halves, span), xs[0])


def _is_steady(points: Sequence[Point], grown: float) -> bool:
    """The lowest values of windows rise in all of them but one, do not fall back, do not stop."""
    edges = [len(points) * part // WINDOWS for part in range(WINDOWS + 1)]
    lows = [min(point.low for point in points[a:b]) for a, b in pairwise(edges)]
    even = (lows[-1] - lows[0]) / (WINDOWS - 1)
    steps = [b - a for a, b in pairwise(lows)]
    if even <= 0.0 or sum(step > EVEN * even for step in steps) < len(steps) - 1:
        return False
    if -min(steps) > FALL * grown:
        return False
    quarter = WINDOWS // 4
    return lows[-1] - lows[-1 - quarter] >= LATE * quarter * even


def _half_slopes(points: Sequence[Point]) -> tuple[float, float]:
    middle = len(points) // 2
    lines = [
        trend([point.x for point in half], [point.high for point in half])
        for half in (points[:middle], points[middle:])
    ]
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
