"""A fetcher of a map-style dataset with its stages open: one sample, all of a batch, the batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

__all__ = [
    "NOT_MADE",
    "Stages",
    "chosen_from",
    "each_alone",
    "length_of",
    "listed",
    "open_stages",
    "shared_like",
]

_STAGES = "_stepscope_stages"  # attribute of a fetcher
NOT_MADE: Any = object()  # a batch that was not made at once: it is made as torch makes it


class Stages:
    """What changes put in the place of a stage; it holds for one fetcher, which is an iteration.

    get(index): one sample. get_all(indices): those of a batch. whole: ways to make a batch at once,
    asked in turn, each of which may leave it (NOT_MADE). after: done to each batch in turn, before
    it is handed over. None: as torch does it.
    """

    def __init__(self, fetcher: Any) -> None:
        self._fetcher, self._fetch = fetcher, fetcher.fetch
        self.get: Callable[[Any], Any] | None = None
        self.get_all: Callable[[Any], Any] | None = None
        self.whole: list[Callable[[Any], Any]] = []
        self.after: list[Callable[[Any], Any]] = []

    def sample(self, index: Any) -> Any:
        return self._fetcher.dataset[index] if self.get is None else self.get(index)

    def one_by_one(self, indices: Any) -> list[Any]:
        return [self.sample(index) for index in indices]

    def fetch(self, index: Any) -> Any:
        """What torch's own `fetch` gives."""
        batch = self._made(index) if self._fetcher.auto_collation else self._alone(index)
        for change in self.after:
            batch = change(batch)
        return batch

    def _alone(self, index: Any) -> Any:
        if self.get is None:
            return self._fetch(index)
        return self._fetcher.collate_fn(self.get(index))

    def _made(self, index: Any) -> Any:
        collate = self._fetcher.collate_fn
        for make in self.whole:
            batch = make(index)
            if batch is not NOT_MADE:
                # Through collate_fn, which may be watched: it leaves what is made as it is.
                return collate([_Made(batch)])
        if self.get_all is not None:
            return collate(self.get_all(index))
        return self._fetch(index) if self.get is None else collate(self.one_by_one(index))


class _Made:
    """A batch for default_collate that needs no collating."""

    def __init__(self, batch: Any) -> None:
        self.batch = batch


def _as_it_is(batch: Any, *, collate_fn_map: Any = None) -> Any:
    return batch[0].batch


def open_stages(fetcher: Any) -> Stages:
    """The stages of this fetcher: the same for all changes to it."""
    from torch.utils.data._utils.collate import default_collate_fn_map

    found: Stages | None = vars(fetcher).get(_STAGES)
    if found is None:
        default_collate_fn_map.setdefault(_Made, _as_it_is)
        found = Stages(fetcher)
        setattr(fetcher, _STAGES, found)
        fetcher.fetch = found.fetch
    return found


def chosen_from(dataset: Any) -> tuple[Any, list[Any]]:
    """The dataset behind torch's Subsets, and these, outermost first."""
    from torch.utils.data import Subset

    subsets = []
    while type(dataset) is Subset:
        subsets.append(dataset)
        dataset = dataset.dataset
    return dataset, subsets


def each_alone(dataset: Any) -> bool:
    """Whether torch asks the dataset for one sample at a time; a Subset passes batches on."""
    return not getattr(chosen_from(dataset)[0], "__getitems__", None)


def length_of(dataset: Any) -> int:
    """Its samples; 0: there are none, or it does not say."""
    try:
        return len(dataset)
    except (TypeError, NotImplementedError):
        return 0


def listed(index: Any, length: int) -> list[int] | None:
    """The indices of a batch as a list; None: not all are whole numbers from 0 up to the length."""
    if not isinstance(index, (list, tuple)) or not index:
        return None
    plain: Sequence[Any] = index[:]  # of a list that tells when it is iterated: without that
    if any(type(one) is not int for one in plain) or min(plain) < 0 or max(plain) >= length:
        return None
    return list(plain)


def shared_like(shape: Sequence[int], dtype: Any) -> Any:
    """An empty tensor in shared memory where this is a worker, which sends it on; else None."""
    import torch
    from torch.utils.data import get_worker_info

    if get_worker_info() is None:
        return None
    empty = torch.empty(0, dtype=dtype)
    count = 1
    for size in shape:
        count *= size
    storage = torch.UntypedStorage._new_shared(count * empty.element_size())
    return empty.set_(storage, 0, tuple(shape))
