"""Samples of a deterministic dataset are made once and kept, in memory or on disk."""

from __future__ import annotations

import os
import tempfile
import weakref
from typing import Any, ClassVar, NamedTuple

from stepscope.collect.limits import OwnLimits
from stepscope.tune.injection import Injection
from stepscope.tune.loading.board import Board
from stepscope.tune.loading.feeds import Feed, follow, is_default, site_of
from stepscope.tune.loading.keeping import Kept
from stepscope.tune.loading.sample_store import SampleStore
from stepscope.tune.loading.stages import each_alone, length_of, open_stages
from stepscope.tune.loading.state import fingerprint
from stepscope.tune.loading.verdict import Verdict, is_refused

__all__ = ["Cache"]

_SHARE = 0.5  # of what is free, where no limit is given
_MOST_CHANGES = 2  # of a dataset by the program, after which keeping its samples is given up


class _Stored(NamedTuple):
    """A dataset's store. marks: what the dataset was when its samples were made."""

    dataset: weakref.ref[Any]
    store: SampleStore
    board: Board
    marks: dict[str, Any]
    changes: int


class Cache(Injection):
    """settings: "limit_bytes" in all (half of what is free, where it is not given) and "where":
    "memory" or "disk".

    Only loaders that are iterated with gradients on. What is kept is checked (loading/keeping.py),
    and thrown away when the program changes its dataset.
    """

    name: ClassVar[str] = "cache"

    def install(self) -> None:
        self._stored: dict[int, _Stored] = {}
        follow(self, self._opened, self._store_for)

    def finish(self) -> None:
        for stored in self._stored.values():
            verdict = Verdict(self.told, Feed(None, True, 0, stored.board))
            if not verdict.refused and not verdict.applied:
                self.told.refused("no sample came round a second time")

    def _store_for(self, loader: Any) -> tuple[SampleStore, Board] | None:
        """In the training process, at the start of each iteration; None: nothing is kept."""
        import torch
        from torch.utils.data import get_worker_info

        # A worker has its loader's store; one of its own for a loader within it would double that.
        if not torch.is_grad_enabled() or get_worker_info() is not None:
            return None
        if not length_of(loader.dataset):
            return None
        self._forget_the_dead()
        key = id(loader.dataset)
        known, marks = self._stored.get(key), fingerprint(loader.dataset)
        if known is not None and (is_refused(known.board) or not _changed(known.marks, marks)):
            return known.store, known.board
        changes = 0 if known is None else known.changes + 1
        if changes > _MOST_CHANGES:
            self.told.refused("the program changes its dataset all the time", site_of(loader))
            return None
        return self._new_store(loader, key, marks, changes)

    def _new_store(
        self, loader: Any, key: int, marks: dict[str, Any], changes: int
    ) -> tuple[SampleStore, Board] | None:
        self._stored.pop(key, None)
        limit = int(self.settings.get("limit_bytes") or self._free_bytes())
        for other in self._stored.values():
            other.store.close_to_more()
            limit -= other.store.used_bytes
        try:
            reference = weakref.ref(loader.dataset)
        except TypeError:
            self.told.refused("the dataset is a plain list: it is in memory", site_of(loader))
            return None
        where = str(self.settings.get("where", "memory"))
        store = SampleStore(len(loader.dataset), limit, where)
        self._stored[key] = _Stored(reference, store, Board(), marks, changes)
        return store, self._stored[key].board

    def _forget_the_dead(self) -> None:
        for key in [key for key, one in self._stored.items() if one.dataset() is None]:
            del self._stored[key]

    def _free_bytes(self) -> int:
        if self.settings.get("where") == "disk":
            disk = os.statvfs(tempfile.gettempdir())
            return int(disk.f_bavail * disk.f_frsize * _SHARE)
        limits = OwnLimits()
        try:
            nearest = limits.nearest()
        finally:
            limits.close()
        return int(nearest.left_bytes * _SHARE) if nearest is not None else 1 << 30

    def _opened(self, fetcher: Any, feed: Feed) -> None:
        from torch.utils.data._utils.fetch import _MapDatasetFetcher

        if feed.extra is None:
            return
        store, board = feed.extra
        verdict = Verdict(self.told, Feed(feed.site, feed.training, feed.workers, board))
        if verdict.refused:
            return
        if type(fetcher) is not _MapDatasetFetcher:
            verdict.refuse("a stream has no samples that come round again")
        elif fetcher.auto_collation and not each_alone(fetcher.dataset):
            verdict.refuse("the dataset makes whole batches itself")
        else:
            copied = not (fetcher.auto_collation and is_default(fetcher.collate_fn))
            open_stages(fetcher).get = Kept(fetcher.dataset, store, verdict, copied=copied)


def _changed(before: dict[str, Any], after: dict[str, Any]) -> bool:
    """Whether the program set something; what was None and is there now, a dataset opens itself."""
    return any(mark is not None and after.get(name) != mark for name, mark in before.items())
