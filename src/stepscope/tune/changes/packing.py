"""What workers send: arrays and many small tensors in one piece of shared memory a batch."""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar

from stepscope.tune.injection import Injection
from stepscope.tune.loading.feeds import Feed, follow, site_of
from stepscope.tune.loading.pack import packed
from stepscope.tune.loading.stages import open_stages
from stepscope.tune.loading.verdict import Verdict

__all__ = ["Packing"]

_LOOKED_AT = 1  # place on the board: batches that had nothing to pack
_ENOUGH = 3  # of them


class Packing(Injection):
    """No settings. The program gets what it got: arrays, lists and tensors of the same kind."""

    name: ClassVar[str] = "packing"

    def install(self) -> None:
        follow(self, self._opened, self._asked)

    def _asked(self, loader: Any) -> None:
        if not loader.num_workers:
            self.told.refused("the loader has no workers: nothing is sent", site_of(loader))

    def _opened(self, fetcher: Any, feed: Feed) -> None:
        from torch.utils.data import get_worker_info

        info = get_worker_info()
        verdict = Verdict(self.told, feed)
        # A loader that the dataset itself uses in a worker sends nothing.
        if info is None or not feed.workers or verdict.refused:
            return
        open_stages(fetcher).after.append(partial(_pack, verdict))


def _pack(verdict: Verdict, batch: Any) -> Any:
    if verdict.refused:
        return batch
    try:
        sent = packed(batch)
    except Exception as error:  # noqa: BLE001 - the border with the user's program
        verdict.refuse(f"a batch could not be packed: {type(error).__name__}: {error}")
        return batch
    if sent is not batch:
        verdict.apply("batches of workers are sent in one piece of shared memory")
    elif not verdict.applied:
        verdict.board[_LOOKED_AT] += 1
        if verdict.board[_LOOKED_AT] >= _ENOUGH:
            verdict.refuse("its batches hold neither arrays nor many small tensors")
    return sent
