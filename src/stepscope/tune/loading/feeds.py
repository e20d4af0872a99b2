"""From a loader to the fetchers that make its batches, in whatever process: who they work for.

A fetcher of torch knows its dataset and its collate_fn, and nothing of its loader. So collate_fn
carries it: it goes to every worker anyway.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from stepscope.collect.chain import Patches, hiding
from stepscope.tune.injection import Injection, Site, users_site
from stepscope.tune.loading.board import Board

__all__ = ["Carried", "Feed", "follow", "is_default", "note_sites", "plain", "site_of"]

_SITE = "_stepscope_site"  # attribute of a loader
_DEPTH = 16


@dataclass(frozen=True, slots=True)
class Feed:
    """What a change knows of a loader, in the training process and in its workers.

    site: where the program made the loader. training: gradients were on when it was iterated.
    board: what is known of its dataset so far. extra: what the change itself has to know.
    """

    site: Site | None
    training: bool
    workers: int
    board: Board
    extra: Any = None


class Carried:
    """A collate_fn, and whom it works for. It does what the collate_fn does."""

    def __init__(self, collate: Callable[..., Any], name: str, feed: Feed) -> None:
        self.__wrapped__, self.name, self.feed = collate, name, feed

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.__wrapped__(*args, **kwargs)


def note_sites(patches: Patches) -> None:
    """Loaders remember where the program made them."""
    from torch.utils.data import DataLoader

    def making(make: Callable[..., None]) -> Callable[..., None]:
        def init(loader: Any, *args: Any, **kwargs: Any) -> None:
            make(loader, *args, **kwargs)
            vars(loader).setdefault(_SITE, users_site())

        return hiding(make, init)

    patches.replace(DataLoader, "__init__", making)


def site_of(loader: Any) -> Site | None:
    found: Site | None = vars(loader).get(_SITE)
    return found


def follow(
    change: Injection,
    opened: Callable[[Any, Feed], None],
    extra: Callable[[Any], Any] = lambda _: None,
) -> None:
    """`opened(fetcher, feed)` for each fetcher of a loader, wherever it is made.

    extra(loader): what the fetchers have to know besides, asked in the training process. Loaders of
    a dataset share a board, and so does a loader with itself from one iteration to the next.
    """
    from torch.utils.data import dataloader

    boards = _Boards()
    note_sites(change.patches)
    replace = change.patches.replace
    replace(
        dataloader._BaseDataLoaderIter, "__init__", lambda f: _starting(change, f, boards, extra)
    )
    replace(dataloader._DatasetKind, "create_fetcher", lambda f: _creating(change, f, opened))


def _starting(
    change: Injection, start: Callable[..., None], boards: _Boards, extra: Callable[[Any], Any]
) -> Callable[..., None]:
    """Iterators, with a collate_fn that carries a feed."""

    def init(iterator: Any, loader: Any, *args: Any, **kwargs: Any) -> None:
        start(iterator, loader, *args, **kwargs)
        try:
            feed = _feed(loader, boards.of(loader), extra(loader))
            iterator._collate_fn = Carried(iterator._collate_fn, change.name, feed)
        except Exception as error:  # noqa: BLE001 - the border with the user's program
            change.told.failed("at the start of an iteration", error)

    return hiding(start, init)


def _creating(
    change: Injection, create: Callable[..., Any], opened: Callable[[Any, Feed], None]
) -> Callable[..., Any]:
    """Fetchers, shown to the change with the feed that their collate_fn carries."""

    def create_fetcher(kind: Any, dataset: Any, batched: Any, collate_fn: Any, *rest: Any) -> Any:
        fetcher = create(kind, dataset, batched, collate_fn, *rest)
        try:
            feed = _feed_of(collate_fn, change.name)
            if feed is not None:
                opened(fetcher, feed)
        except Exception as error:  # noqa: BLE001
            change.told.failed("making a fetcher", error)
        return fetcher

    return hiding(create, create_fetcher)


class _Boards:
    """One for each dataset, as long as it lives."""

    def __init__(self) -> None:
        self._by_id: dict[int, tuple[weakref.ref[Any], Board]] = {}

    def of(self, loader: Any) -> Board:
        dataset = loader.dataset
        known = self._by_id.get(id(dataset))
        if known is not None and known[0]() is dataset:
            return known[1]
        board, key = Board(), id(dataset)
        try:
            reference = weakref.ref(dataset, lambda _: self._by_id.pop(key, None))
        except TypeError:  # a list, say: known for this iteration only
            return board
        self._by_id[key] = (reference, board)
        return board


def _feed(loader: Any, board: Board, extra: Any) -> Feed:
    import torch

    return Feed(site_of(loader), torch.is_grad_enabled(), loader.num_workers, board, extra)


def _links(collate: Any) -> list[Any]:
    """The function, and all that stands in front of it, outermost first."""
    found = [collate]
    while len(found) < _DEPTH and hasattr(found[-1], "__wrapped__"):
        found.append(found[-1].__wrapped__)
    return found


def _feed_of(collate: Any, name: str) -> Feed | None:
    for link in _links(collate):
        if isinstance(link, Carried) and link.name == name:
            return link.feed
    return None


def plain(collate: Any) -> Any:
    """The program's own collate_fn, without what we and our collectors put in front of it."""
    ours = [link for link in _links(collate) if isinstance(link, Carried)]
    return ours[-1].__wrapped__ if ours else collate


def is_default(collate: Any) -> bool:
    """Whether batches are made by torch's default_collate."""
    from torch.utils.data import default_collate

    return plain(collate) is default_collate
