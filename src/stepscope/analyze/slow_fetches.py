"""Samples of a worker → those taken while it made a batch that took far longer than usual."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Iterator, Sequence

from stepscope.analyze.spans import FAILED, OPEN
from stepscope.analyze.stack_phases import Sample
from stepscope.model import names
from stepscope.model.event import Batch
from stepscope.stats.quantiles import median

__all__ = ["SlowFetches", "fetches_of"]

# Beyond twice the median most of the time goes to what other batches do not have.
SLOW = 2.0
KNOWN = 16  # batches, before any is called slow
USUAL = 512  # batches that tell what is usual
_KEPT, _WAITING = 256, 5_000
_COLUMNS = ("name", "time_ns", "duration_ns", "flags")


def fetches_of(batch: Batch) -> list[tuple[int, int]]:
    """(start, end) of each batch that a worker made."""
    wanted = {number for number, name in batch.names.items() if name == names.WORKER_FETCH}
    if not wanted:
        return []
    columns = (batch.columns[name].tolist() for name in _COLUMNS)
    return [
        (start_ns, start_ns + took_ns)
        for name, start_ns, took_ns, flags in zip(*columns, strict=True)
        if name in wanted and took_ns and not flags & (OPEN | FAILED)
    ]


class SlowFetches:
    """Of one worker; `usual_ns`: what batches took, of all workers of a loader together.

    Spans and samples arrive in turn: a sample waits until a batch that ended after it is known.
    """

    def __init__(self, usual_ns: deque[int]) -> None:
        self._usual_ns = usual_ns
        self._slow: deque[tuple[int, int]] = deque(maxlen=_KEPT)  # (end, start), by their ends
        self._until_ns = 0
        self._samples: deque[Sample] = deque(maxlen=_WAITING)

    def update(
        self, fetches: Sequence[tuple[int, int]], samples: Iterable[Sample]
    ) -> Iterator[Sample]:
        """`fetches`: (start, end) of each batch since the last time. Gives samples of slow ones."""
        self._samples.extend(samples)
        self._usual_ns.extend(end - start for start, end in fetches)
        usual_ns = median(self._usual_ns) if len(self._usual_ns) >= KNOWN else None
        for start, end in fetches:
            self._until_ns = max(self._until_ns, end)
            if usual_ns is not None and end - start > SLOW * usual_ns:
                self._slow.append((end, start))
        while self._samples and self._samples[0].time_ns <= self._until_ns:
            sample = self._samples.popleft()
            if self._is_slow(sample.time_ns):
                yield sample

    def _is_slow(self, time_ns: int) -> bool:
        at = bisect_left(self._slow, (time_ns, 0))
        return at < len(self._slow) and self._slow[at][1] < time_ns
