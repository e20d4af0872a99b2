"""A long series in few points: each stands for a run of neighbours."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Point", "Thinned"]

KEPT = 64  # points at least, once there were as many; three times that at most


class Point(NamedTuple):
    """x and middle: of the values in the middle. low, high: the extremes among them."""

    x: float
    middle: float
    low: float
    high: float


class Thinned:
    """Points of a series of any length, evenly spread over it; memory does not grow with it.

    Three neighbours at a time become one, whose middle is their median (the remedian): odd values
    do not get through, as they would with means.

    >>> thinned = Thinned()
    >>> for x in range(1000):
    ...     thinned.update(x, 5.0 if x % 10 else 90.0)
    >>> len(thinned.points), {point.middle for point in thinned.points}
    (111, {5.0})
    """

    def __init__(self, kept: int = KEPT) -> None:
        self.points: list[Point] = []
        self._most = 3 * kept
        self._waiting: list[list[Point]] = []  # by how often their values were taken together

    def update(self, x: float, y: float) -> None:
        point = Point(x, y, y, y)
        for waiting in self._waiting:
            waiting.append(point)
            if len(waiting) < 3:
                return
            point = _together(waiting)
            waiting.clear()
        self.points.append(point)
        if len(self.points) >= self._most:
            threes = zip(*[iter(self.points)] * 3, strict=False)
            self.points = [_together(three) for three in threes]
            self._waiting.append([])


def _together(three: list[Point] | tuple[Point, ...]) -> Point:
    _, middle, _ = sorted(point.middle for point in three)
    return Point(
        three[1].x,
        middle,
        min(point.low for point in three),
        max(point.high for point in three),
    )
