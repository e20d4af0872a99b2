from __future__ import annotations

from itertools import pairwise

from stepscope.analyze.speed import MOST, SpeedFold
from stepscope.model import names
from tests.unit.analyze.made import batch, sample


def test_readings_are_kept_and_other_samples_are_not() -> None:
    fold = SpeedFold()

    fold.update(batch([sample(names.REFERENCE_NS, 0.0, 21_000.0), sample("other", 0.0, 5.0)]))
    fold.update(batch([sample(names.REFERENCE_NS, 0.0, 22_000.0)]))

    assert list(fold.readings_ns) == [21_000.0, 22_000.0]


def test_very_many_readings_are_thinned_evenly() -> None:
    fold = SpeedFold()
    for start in range(0, 4 * MOST, 1024):
        fold.update(
            batch([sample(names.REFERENCE_NS, 0.0, float(start + at)) for at in range(1024)])
        )

    kept = list(fold.readings_ns)
    assert MOST // 2 <= len(kept) <= MOST
    assert kept == sorted(kept)
    assert len({b - a for a, b in pairwise(kept)}) == 1
