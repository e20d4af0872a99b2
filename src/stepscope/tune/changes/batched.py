"""Datasets in memory: one index operation for a batch, in the place of one for each sample."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

from stepscope.tune.injection import Injection
from stepscope.tune.loading.both_ways import AtOnce, BothWays, Way, why_no_batches
from stepscope.tune.loading.elementwise import why_not_elementwise
from stepscope.tune.loading.feeds import Feed, follow
from stepscope.tune.loading.stages import (
    NOT_MADE,
    chosen_from,
    length_of,
    listed,
    open_stages,
    shared_like,
)
from stepscope.tune.loading.verdict import Verdict

__all__ = ["Batched"]


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
        if verdict.refused_for(lambda: "" if verdict.applied else _why_not(fetcher)):
            return
        stages = open_stages(fetcher)
        rows = _Rows(fetcher.dataset)
        if _is_plain(rows.dataset):
            verdict.apply("batches of a TensorDataset are indexed at once")
            stages.whole.append(partial(_indexed, rows))
        else:
            stages.whole.append(BothWays(_Asked(rows), stages.one_by_one, verdict))


def _why_not(fetcher: Any) -> str:
    if reason := why_no_batches(fetcher, "index"):
        return reason
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


class _Asked(AtOnce):
    """Batches of a dataset of the user's, which is asked for all rows at once."""

    may_round = False
    participle = "made"
    differs = "a batch indexed at once is not what its samples give"

    def __init__(self, rows: _Rows) -> None:
        super().__init__(
            rows.dataset, [Way(partial(_asked, rows.dataset, form)) for form in _FORMS]
        )
        self._rows = rows

    def indices(self, index: Any) -> list[int] | None:
        return self._rows.of(index)

    def what(self, rounded: bool) -> str:
        return f"batches of {type(self.dataset).__name__} are indexed at once"


def _asked(dataset: Any, form: Callable[[list[int]], Any], rows: list[int]) -> Any:
    return _collated(dataset[form(rows)])


def _by_tensor(rows: list[int]) -> Any:
    import torch

    return torch.tensor(rows)


def _by_array(rows: list[int]) -> Any:
    import numpy as np

    return np.array(rows)


_FORMS = (_by_tensor, _by_array)


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
