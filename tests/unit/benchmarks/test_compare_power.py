"""How the benchmark of compare draws its pairs."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from compare_power import GROUP, PAIRS, Pool, same_pairs, slow_pairs


@pytest.mark.parametrize("runs", [10, 30, 100])
def test_pairs_are_neighbours_in_time_and_no_run_stands_twice_in_one(runs: int) -> None:
    pool = Pool(
        [Path(f"20-{number:03d}") for number in range(runs)],
        [Path(f"21-{number:03d}") for number in range(runs)],
    )

    same = same_pairs(pool, random.Random(1))
    slow = slow_pairs(pool, random.Random(1))

    assert len(same) == len(slow) == PAIRS
    for base, new in same:
        assert len(base) == len(new) == GROUP
        drawn = sorted({*base, *new})
        assert len(drawn) == 2 * GROUP
        of_kind = pool.base if drawn[0] in pool.base else pool.slow
        first = of_kind.index(drawn[0])
        assert drawn == of_kind[first : first + 2 * GROUP]
    for base, new in slow:
        assert len({*base, *new}) == 2 * GROUP
        assert [path.name[3:] for path in base] == [path.name[3:] for path in new]
