"""A week is a long time: here it has ten minutes."""

from __future__ import annotations

from monitor_week import Point, simulate_week, targets


def test_every_step_is_counted_whichever_way_it_takes() -> None:
    points: list[Point] = []
    figures = simulate_week(10_000, points.append)
    assert (figures["steps"], figures["steps_missed"]) == (10_000, 0)
    assert [round(point.share, 1) for point in points] == [n / 10 for n in range(1, 11)]
    assert 0 < figures["disk_mb_most"] < figures["limit_mb"]
    assert figures["alerts"] == 0, "nothing happens in it"


def test_a_launcher_that_grows_misses_its_target() -> None:
    figures = {
        "rss_growth_mb": 5.5,
        "disk_mb_most": 201.0,
        "limit_mb": 200.0,
        "descriptors_growth": 1.0,
        "steps_missed": -1.0,
        "launcher_cpu_share": 0.011,
    }
    assert not any(target.ok for target in targets(figures))
