"""Batches that draw the same random numbers in whichever process they are made."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any, ClassVar

from stepscope.collect.digest import digest
from stepscope.tune.injection import Injection
from stepscope.tune.loading.feeds import Feed, follow
from stepscope.tune.loading.randomness import Generators
from stepscope.tune.loading.verdict import Verdict

__all__ = ["BatchSeeds"]


class BatchSeeds(Injection):
    """No settings. Every batch is drawn from a seed that its indices give, and the generators are
    put back after it. Two runs that differ only in who makes the batches then train on the same
    data, so that their losses can be compared step by step.

    The first batch is made twice. Where the two differ, the dataset draws from a generator that
    cannot be found (or changes itself), and this is refused. Such a run has drawn other numbers
    than the program as it is, which shows how far apart its losses may lie.
    """

    name: ClassVar[str] = "batch-seeds"

    def install(self) -> None:
        follow(self, self._opened)

    def _opened(self, fetcher: Any, feed: Feed) -> None:
        from torch.utils.data._utils.fetch import _MapDatasetFetcher

        verdict = Verdict(self.told, feed)
        if isinstance(fetcher, _MapDatasetFetcher):
            fetcher.fetch = _Seeded(fetcher, verdict)
        else:
            Generators(fetcher.dataset).seed(_SEED)
            verdict.refuse("a stream has no indices that could give a seed")


_SEED = 1  # of a stream: another than the programs of trials begin with


class _Seeded:
    """`fetch` of one fetcher."""

    def __init__(self, fetcher: Any, verdict: Verdict) -> None:
        self._fetch: Callable[[Any], Any] = fetcher.fetch
        self._drawing = (fetcher.dataset, fetcher.collate_fn)
        self._verdict = verdict

    def __call__(self, index: Any) -> Any:
        if self._verdict.refused:
            return self._fetch(index)
        batch = self._drawn(index)
        if not self._verdict.applied:
            first, batch = digest(batch), self._drawn(index)
            if first is not None and first == digest(batch):
                self._verdict.apply("every batch is drawn from a seed of its own")
            else:
                self._verdict.refuse("a batch made twice from one seed is not the same")
        return batch

    def _drawn(self, index: Any) -> Any:
        generators = Generators(self._drawing)
        generators.seed(zlib.crc32(repr(index).encode()))
        try:
            return self._fetch(index)
        finally:
            generators.put_back()
