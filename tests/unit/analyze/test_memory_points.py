from __future__ import annotations

from stepscope.analyze.memory_points import PointFold
from stepscope.model.memory import CATEGORIES, MAX_MEMORY_POINTS

NONE = (0,) * (len(CATEGORIES) - 1)


def folded(totals: list[int], count: int | None = None) -> list[tuple[float, int]]:
    fold = PointFold(len(totals) if count is None else count)
    for at, total in enumerate(totals):
        fold.update(float(at), (total, *NONE))
    return [(point.at_ms, point.total) for point in fold.get()]


def test_few_points_are_all_kept() -> None:
    totals = list(range(MAX_MEMORY_POINTS))
    assert folded(totals) == [(float(total), total) for total in totals]


def test_of_many_points_the_highest_the_first_and_the_last_are_kept() -> None:
    totals = [at % 97 for at in range(50_000)]
    totals[31_337] = 1_000_000
    kept = folded(totals)
    assert MAX_MEMORY_POINTS / 2 < len(kept) <= MAX_MEMORY_POINTS
    assert (31_337.0, 1_000_000) in kept
    assert kept[0] == (0.0, 0)
    assert kept[-1] == (49_999.0, totals[-1])
    assert kept == sorted(kept)


def test_fewer_points_than_were_announced_do_no_harm() -> None:
    assert folded([5, 9, 7], count=10_000)[0] == (0.0, 5)
    assert (1.0, 9) in folded([5, 9, 7], count=10_000)
    assert folded([], count=0) == []


def test_bytes_are_a_copy() -> None:
    fold, held = PointFold(2), [1, *NONE]
    fold.update(0.0, held)
    held[0] = 2
    fold.update(1.0, held)
    assert [point.total for point in fold.get()] == [1, 2]
