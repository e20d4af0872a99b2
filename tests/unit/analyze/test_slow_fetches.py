from __future__ import annotations

from collections import deque

from stepscope.analyze.slow_fetches import KNOWN, SlowFetches, fetches_of
from stepscope.analyze.spans import FAILED
from stepscope.analyze.stack_phases import Sample
from stepscope.model import names
from tests.unit.analyze.made import MS, batch, span

USUAL = [(10 * n, 10 * n + 10) for n in range(KNOWN)]  # batches of 10 ms, one after the other
END = 10 * KNOWN


def sample(at: float) -> Sample:
    return Sample(round(at), names.WORKER_FETCH, 1, False, 1)


def times(samples: list[Sample]) -> list[int]:
    return [one.time_ns for one in samples]


def test_samples_of_a_batch_beyond_twice_the_median_are_slow() -> None:
    fetches = SlowFetches(deque())
    seen = [sample(at) for at in (5, END + 5, END + 29, END + 35)]
    slow = list(fetches.update([*USUAL, (END, END + 30), (END + 30, END + 49)], seen))
    assert times(slow) == [END + 5, END + 29]


def test_a_sample_waits_for_the_end_of_its_batch() -> None:
    fetches = SlowFetches(deque())
    assert list(fetches.update(USUAL, [sample(END + 5)])) == []
    assert times(list(fetches.update([(END, END + 30)], []))) == [END + 5]
    assert times(list(fetches.update([], [sample(END + 6)]))) == [END + 6]


def test_between_batches_nothing_is_slow() -> None:
    fetches = SlowFetches(deque())
    later = [(END + 10, END + 40), (END + 60, END + 70)]
    assert list(fetches.update([*USUAL, *later], [sample(END + 5), sample(END + 50)])) == []


def test_without_enough_batches_none_is_slow_and_other_workers_help() -> None:
    alone, usual = SlowFetches(deque()), deque([10] * KNOWN)
    assert list(alone.update([(0, 10), (10, 90)], [sample(50)])) == []
    assert times(list(SlowFetches(usual).update([(10, 90)], [sample(50)]))) == [50]


def test_fetches_are_spans_that_ended_well() -> None:
    fetch = span(names.WORKER_FETCH, 1, 3)
    failed = span(names.WORKER_FETCH, 4, 6, flags=FAILED)
    assert fetches_of(batch([fetch, failed, span(names.FORWARD, 7, 8)])) == [(MS, 3 * MS)]
