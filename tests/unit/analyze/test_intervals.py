from __future__ import annotations

import pytest

from stepscope.analyze.intervals import Intervals

MS = 1_000_000


def test_runs_that_are_close_are_one_stretch_and_others_are_apart() -> None:
    found = Intervals(gap_ns=1 * MS)
    for start, end in ((0, 10), (10, 12), (20, 30)):
        found.add(start * MS, end * MS)
    assert found.get() == [(0, 12 * MS), (20 * MS, 30 * MS)]


@pytest.mark.timeout(20)
def test_more_stretches_than_are_kept_become_fewer_and_none_is_lost() -> None:
    found = Intervals(gap_ns=1 * MS)
    for number in range(2000):  # 1 ms every 10 ms: each is a stretch of its own
        found.add(number * 10 * MS, (number * 10 + 1) * MS)
    stretches = found.get()
    assert len(stretches) <= 256
    assert (stretches[0][0], stretches[-1][1]) == (0, 19_991 * MS)
    assert found.covered_ns == 2000 * MS
