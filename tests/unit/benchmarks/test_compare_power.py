"""How the benchmark of compare draws its pairs."""

from __future__ import annotations

from pathlib import Path

import pytest

from compare_power import GROUP, PAIRS, Pool, same_pairs, slow_pairs


@pytest.mark.parametrize("runs", [10, 30, 100])
def test_pairs_are_neighbours_in_time_and_no_run_stands_twice_in_one(runs: int) -> None:
    pool = Pool(
        [Path(f"20-{number:03d}") for number in range(runs)],
        [Path(f"21-{number:03d}") for number in range(runs)],
    )

    same, slow = same_pairs(pool), slow_pairs(pool)

    assert len(same) == len(slow) == PAIRS
    for base, new in same:
        assert len(base) == len(new) == GROUP
        drawn = sorted({*base, *new})
        assert len(drawn) == 2 * GROUP
        first = pool.base.index(drawn[0])
        assert drawn == pool.base[first : first + 2 * GROUP]
    for base, new in slow:
        assert [path.name[3:] for path in base] == [path.name[3:] for path in new]
    assert slow[0][0][0] == pool.base[0]
    assert slow[-1][0][-1] == pool.base[-1]
