from __future__ import annotations

import random

from stepscope.stats.thinned import KEPT, Point, Thinned


def told(values: list[float], kept: int = KEPT) -> Thinned:
    thinned = Thinned(kept)
    for x, y in enumerate(values):
        thinned.update(x, y)
    return thinned


def test_a_short_series_is_kept_as_it_is() -> None:
    assert told([3.0, 1.0]).points == [Point(0, 3.0, 3.0, 3.0), Point(1, 1.0, 1.0, 1.0)]


def test_three_neighbours_become_one_with_their_median_and_extremes() -> None:
    thinned = told([1.0, 9.0, 2.0, 5.0, 5.0, 5.0, 7.0, 8.0, 6.0], kept=3)
    assert thinned.points == [
        Point(1, 2.0, 1.0, 9.0),
        Point(4, 5.0, 5.0, 5.0),
        Point(7, 7.0, 6.0, 8.0),
    ]


def test_points_stay_few_and_cover_the_whole_series() -> None:
    points = told([float(x) for x in range(100_000)]).points
    assert KEPT <= len(points) < 3 * KEPT
    assert points[0].x < 2_000
    assert points[-1].x > 97_000
    assert all(point.low <= point.middle <= point.high for point in points)


def test_no_peak_gets_lost() -> None:
    values = [0.0] * 10_000
    values[1234] = 9.0
    assert max(point.high for point in told(values).points) == 9.0


def test_wild_values_do_not_reach_the_middle() -> None:
    rng = random.Random(1)
    values = [1e9 if rng.random() < 0.05 else 1.0 for _ in range(30_000)]
    assert {point.middle for point in told(values).points} == {1.0}
