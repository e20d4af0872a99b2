"""Datasets in memory: one index operation for a batch, in the place of one for each sample."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

from stepscope.tune.injection import Injection
from stepscope.tune.loading.closeness import BITS, how_close
from stepscope.tune.loading.elementwise import why_not_elementwise
from stepscope.tune.loading.feeds import Feed, follow, is_default
from stepscope.tune.loading.randomness import Generators
from stepscope.tune.loading.stages import (
    NOT_MADE,
    chosen_from,
    each_alone,
    length_of,
    listed,
    open_stages,
    shared_like,
)
from stepscope.tune.loading.verdict import Verdict

__all__ = ["Batched"]

_WAY, _MADE = 1, 2  # places on the board: the way that gave the same, counted from 1; batches
_COMPARED = 3  # batches of a dataset of the user's, made both ways before one is given
_AGAIN = 256  # one batch in so many is made both ways later


class Batched(Injection):
    """No settings. The batches are the same to the bit.

    Datasets of torch are known (TensorDataset, Subset of one). For others the source of their
    `__getitem__` has to say that samples are indexed and computed element by element, and the first
    batches are made both ways.
    """

    name: ClassVar[str] = "batched"

    def install(self) -> None:
        follow(self, self._opened)

    def _opened(self, fetcher: Any, feed: Feed) -> None:
        verdict = Verdict(self.told, feed)
        if verdict.refused:
            return
        reason = "" if verdict.applied else _why_not(fetcher)
        if reason:
            verdict.refuse(reason)
            return
        stages = open_stages(fetcher)
        rows = _Rows(fetcher.dataset)
        if _is_plain(rows.dataset):
            verdict.apply("batches of a TensorDataset are indexed at once")
            stages.whole.append(partial(_indexed, rows))
        else:
            stages.whole.append(_Compared(rows, stages.one_by_one, verdict))


def _why_not(fetcher: Any) -> str:
    from torch.utils.data._utils.fetch import _MapDatasetFetcher

    if type(fetcher) is not _MapDatasetFetcher or not fetcher.auto_collation:
        return "there are no batches to index"
    if not is_default(fetcher.collate_fn):
        return "its collate_fn is not torch's, and wants samples"
    if not each_alone(fetcher.dataset) or not length_of(fetcher.dataset):
        return "the dataset makes whole batches itself, or has no length"
    dataset, _ = chosen_from(fetcher.dataset)
    if _is_plain(dataset):
        return ""
    kind = type(dataset)
    reason = why_not_elementwise(getattr(kind, "__getitem__", None), dataset)
    return f"{kind.__name__}.__getitem__ cannot be asked for a batch: {reason}" if reason else ""


def _is_plain(dataset: Any) -> bool:
    """A TensorDataset of which everything is known."""
    import torch
    from torch.utils.data import TensorDataset

    return type(dataset) is TensorDataset and all(
        type(one) is torch.Tensor and one.is_contiguous() and not one.requires_grad
        for one in dataset.tensors
    )


class _Rows:
    """Indices of a loader's dataset as those of the dataset that holds the data."""

    def __init__(self, dataset: Any) -> None:
        self.dataset, self._subsets = chosen_from(dataset)
        self._length = length_of(dataset)
        self._all = length_of(self.dataset)

    def of(self, index: Any) -> list[int] | None:
        """None: not all of them are plain numbers within the data."""
        found = listed(index, self._length)
        if found is None or not self._subsets:
            return found
        for subset in self._subsets:
            found = [subset.indices[one] for one in found]
        return listed([int(one) for one in found], self._all)


def _indexed(rows: _Rows, index: Any) -> Any:
    """A batch of a TensorDataset."""
    import torch

    found = rows.of(index)
    if found is None or not _is_plain(rows.dataset):
        return NOT_MADE
    chosen = torch.tensor(found)
    try:
        return [_chosen(tensor, chosen) for tensor in rows.dataset.tensors]
    except (IndexError, RuntimeError):  # of tensors that do not fit together: torch says which
        return NOT_MADE


def _chosen(tensor: Any, rows: Any) -> Any:
    import torch

    shape = (len(rows), *tensor.shape[1:])
    out = shared_like(shape, tensor.dtype) if tensor.device.type == "cpu" else None
    return torch.index_select(tensor, 0, rows.to(tensor.device), out=out)


class _Compared:
    """Batches of a dataset of the user's: made both ways until that has shown the same, and now and
    then after that."""

    def __init__(
        self, rows: _Rows, one_by_one: Callable[[Any], list[Any]], verdict: Verdict
    ) -> None:
        self._rows, self._dataset, self._verdict = rows, rows.dataset, verdict
        self._one_by_one = one_by_one
        self._first = True  # of this iteration: the program may have changed its dataset

    def __call__(self, index: Any) -> Any:
        found = None if self._verdict.refused else self._rows.of(index)
        if found is None:
            return NOT_MADE
        board = self._verdict.board
        board[_MADE] += 1
        if self._first or not self._verdict.applied or not board[_MADE] % _AGAIN:
            self._first = False
            return self._both_ways(index, found)
        try:
            return self._asked(_WAYS[board[_WAY] - 1], found)
        except Exception as error:  # noqa: BLE001 - the user's code, asked what it was not made for
            self._verdict.refuse(f"a batch could not be made at once: {error}"[:300])
            return NOT_MADE

    def _asked(self, way: Callable[[list[int]], Any], rows: list[int]) -> Any:
        return _collated(self._dataset[way(rows)])

    def _both_ways(self, index: Any, rows: list[int]) -> Any:
        from torch.utils.data import default_collate

        generators = Generators(self._dataset)
        samples = self._one_by_one(index)
        drawn = generators.drawn()
        # The program gets what it would have got, whatever comes of the comparison.
        batch = default_collate(samples)
        if drawn:
            self._verdict.refuse("its samples are drawn at random, each on its own")
        else:
            self._compare(batch, rows, generators)
        return batch

    def _compare(self, batch: Any, rows: list[int], generators: Generators) -> None:
        board = self._verdict.board
        for number, way in enumerate(_WAYS, 1):
            if board[_WAY] in (0, number) and self._is_same(way, rows, batch, generators):
                board[_WAY] = number
                if board[_MADE] >= _COMPARED:
                    name = type(self._dataset).__name__
                    self._verdict.apply(f"batches of {name} are indexed at once")
                return
        self._verdict.refuse("a batch indexed at once is not what its samples give")

    def _is_same(
        self, way: Callable[[list[int]], Any], rows: list[int], batch: Any, generators: Generators
    ) -> bool:
        try:
            made = self._asked(way, rows)
            return how_close(made, batch) == BITS
        except Exception:  # noqa: BLE001 - another way may do
            return False
        finally:
            if generators.drawn():
                generators.put_back()


def _by_tensor(rows: list[int]) -> Any:
    import torch

    return torch.tensor(rows)


def _by_array(rows: list[int]) -> Any:
    import numpy as np

    return np.array(rows)


_WAYS = (_by_tensor, _by_array)


def _collated(batch: Any) -> Any:
    """What an index gave, in the form that default_collate gives to a batch."""
    import torch

    if isinstance(batch, tuple) and hasattr(batch, "_fields"):
        return type(batch)(*(_collated(one) for one in batch))
    if isinstance(batch, (list, tuple)):
        return [_collated(one) for one in batch]
    if isinstance(batch, dict):
        return {key: _collated(one) for key, one in batch.items()}
    found = torch.as_tensor(batch)
    if not found.dim():
        raise TypeError("a number is no batch")
    return found
