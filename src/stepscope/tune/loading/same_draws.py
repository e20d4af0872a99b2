"""A loader whose workers were changed draws from random generators as it did before.

torch draws a seed for each new iterator, and asks the sampler for one iterator without workers, for
two with them; with persistent workers only the first iteration does either. Whoever shares the
generator with the loader (it is the global one by default) would get other numbers.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from typing import Any

from stepscope.tune.loading.state import fingerprint

__all__ = ["SameDraws"]


class _Given:
    """A sampler whose iterator has been asked for already."""

    def __init__(self, iterator: Iterator[Any]) -> None:
        self._iterator = iterator

    def __iter__(self) -> Iterator[Any]:
        return self._iterator


class _Once:
    """A sampler that is asked for one iterator, however often torch asks."""

    def __init__(self, sampler: Any) -> None:
        self.sampler, self._iterator = sampler, None

    def __iter__(self) -> Iterator[Any]:
        if self._iterator is None:
            self._iterator = iter(self.sampler)
        return self._iterator  # type: ignore[return-value]

    def __len__(self) -> int:
        return len(self.sampler)


class SameDraws:
    """workers, persistent: what the loader had before it was changed."""

    def __init__(self, workers: int, persistent: bool) -> None:
        self._workers, self._persistent = workers, persistent

    def maker(self, loader: Any) -> Callable[[], Any]:
        """What stands for `loader._get_iterator`."""
        mine = weakref.ref(loader)  # a loader is freed, and its workers ended, by its last user

        def get_iterator() -> Any:
            loader = mine()
            if loader is None:
                raise RuntimeError("The loader is gone: make iterators of one that is held.")
            return self._make(loader)

        return get_iterator

    def _make(self, loader: Any) -> Any:
        make = type(loader)._get_iterator
        if not self._workers and loader.num_workers:
            iterator = _asked_once(loader, make)
        else:
            iterator = make(loader)
            if self._workers and not loader.num_workers:
                iterator._sampler_iter = iter(iterator._index_sampler)
        if loader.persistent_workers and not self._persistent:
            iterator._reset = self._resetting(iterator, loader.dataset)
        return iterator

    def _resetting(self, iterator: Any, dataset: Any) -> Callable[..., None]:
        """`_reset` of an iterator that would be a new one, were it not for us.

        torch hands out what is the loader's iterator after this, be it another.
        """
        seen = fingerprint(dataset)
        weak = weakref.ref(iterator)

        def reset(loader: Any, first_iter: bool = False) -> None:
            iterator = weak()
            if iterator is None:
                return
            if not _is_over(iterator):
                # The program looks at a batch in the middle of a pass, or goes through it twice at
                # once: without us it would have an iterator for each.
                loader._iterator = self._make(loader)
                return
            if fingerprint(loader.dataset) != seen:
                iterator._shutdown_workers()  # they have the dataset as it was
                loader._iterator = self._make(loader)
                return
            sampler = iterator._index_sampler
            first = iter(sampler)
            _draw_seed(loader)
            if self._workers:
                type(iterator)._reset(iterator, loader, first_iter)
                return
            iterator._index_sampler = _Given(first)
            try:
                type(iterator)._reset(iterator, loader, first_iter)
            finally:
                iterator._index_sampler = sampler

        return reset


def _is_over(iterator: Any) -> bool:
    """Whether all batches of a pass were handed out."""
    return bool(iterator._rcvd_idx >= iterator._send_idx and iterator._tasks_outstanding <= 0)


def _asked_once(loader: Any, make: Callable[[Any], Any]) -> Any:
    name = "batch_sampler" if loader._auto_collation else "sampler"
    sampler = getattr(loader, name)
    object.__setattr__(loader, name, _Once(sampler))
    try:
        iterator = make(loader)
    finally:
        object.__setattr__(loader, name, sampler)
    iterator._index_sampler = sampler
    return iterator


def _draw_seed(loader: Any) -> None:
    import torch

    torch.empty((), dtype=torch.int64).random_(generator=loader.generator).item()
