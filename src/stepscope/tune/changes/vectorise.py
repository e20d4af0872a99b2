"""The transform of a dataset over a batch at once, in the place of one call for each sample."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from stepscope.tune.injection import Injection
from stepscope.tune.loading.closeness import BITS, how_close
from stepscope.tune.loading.elementwise import why_not_elementwise, without_ours
from stepscope.tune.loading.feeds import Feed, follow, is_default
from stepscope.tune.loading.randomness import Generators
from stepscope.tune.loading.split import NotSplitError, Split, filled, path_of
from stepscope.tune.loading.stages import NOT_MADE, each_alone, length_of, listed, open_stages
from stepscope.tune.loading.verdict import Verdict

__all__ = ["Vectorise"]

_WAY, _MADE, _ROUNDED = 1, 2, 3  # places on the board: the way, from 1; batches; not to the bit
_COMPARED = 3  # batches that are made both ways before one is given
_AGAIN = 256  # one batch in so many is made both ways later


class Vectorise(Injection):
    """No settings. Batches are the same to the bit, or up to the rounding of their dtype: which of
    the two is told.

    torch.vmap treats each sample as alone, whatever the transform does, or fails. The transform
    itself is given a batch only where its source says that it works element by element.
    """

    name: ClassVar[str] = "vectorise"

    def install(self) -> None:
        follow(self, self._opened)

    def _opened(self, fetcher: Any, feed: Feed) -> None:
        verdict = Verdict(self.told, feed)
        if verdict.refused:
            return
        reason = _why_not(fetcher)
        if reason:
            verdict.refuse(reason)
            return
        try:
            split = Split(fetcher.dataset)
        except NotSplitError as error:
            verdict.refuse(str(error))
            return
        stages = open_stages(fetcher)
        stages.whole.append(_AtOnce(fetcher.dataset, split, stages.one_by_one, verdict))


def _why_not(fetcher: Any) -> str:
    from torch.utils.data._utils.fetch import _MapDatasetFetcher

    if type(fetcher) is not _MapDatasetFetcher or not fetcher.auto_collation:
        return "there are no batches to transform"
    if not is_default(fetcher.collate_fn):
        return "its collate_fn is not torch's, and wants samples"
    if not each_alone(fetcher.dataset) or not length_of(fetcher.dataset):
        return "the dataset makes whole batches itself, or has no length"
    return ""


class _AtOnce:
    """Batches whose transform is called once."""

    def __init__(
        self,
        dataset: Any,
        split: Split,
        one_by_one: Callable[[Any], list[Any]],
        verdict: Verdict,
    ) -> None:
        self._dataset, self._split, self._verdict = dataset, split, verdict
        self._one_by_one = one_by_one
        self._first = True  # of this iteration: the program may have changed its transform

    def __call__(self, index: Any) -> Any:
        indices = None if self._verdict.refused else listed(index, length_of(self._dataset))
        if indices is None:
            return NOT_MADE
        board = self._verdict.board
        board[_MADE] += 1
        if self._first or not self._verdict.applied or not board[_MADE] % _AGAIN:
            self._first = False
            return self._both_ways(index, indices)
        try:
            return self._made(_WAYS[board[_WAY] - 1], indices)
        except Exception as error:  # noqa: BLE001 - the user's code, asked what it was not made for
            self._verdict.refuse(f"a batch could not be transformed at once: {error}"[:300])
            return NOT_MADE

    def _made(self, way: Callable[[Any, Any], Any], indices: list[int]) -> Any:
        from torch.utils.data import default_collate

        samples, raws = zip(*(self._split.raw(index) for index in indices), strict=True)
        batch = default_collate([filled(sample, 0) for sample in samples])
        return _put(batch, path_of(samples[0]), way(self._split.transform, raws))

    def _both_ways(self, index: Any, indices: list[int]) -> Any:
        from torch.utils.data import default_collate

        generators = Generators(self._dataset)
        samples = self._one_by_one(index)
        drawn = generators.drawn()
        # The program gets what it would have got, whatever comes of the comparison.
        batch = default_collate(samples)
        if drawn:
            self._verdict.refuse("its samples are drawn at random, each on its own")
        else:
            self._compare(batch, indices, generators)
        return batch

    def _compare(self, batch: Any, indices: list[int], generators: Generators) -> None:
        board, reason = self._verdict.board, ""
        for number, way in enumerate(_WAYS, 1):
            if board[_WAY] not in (0, number):
                continue
            try:
                if way is _direct:
                    _check_elementwise(self._split.transform)
                close = how_close(self._made(way, indices), batch)
            except Exception as error:  # noqa: BLE001 - another way may do
                reason = reason or f"it cannot be done at once: {error}"[:200]
                close = None
            finally:
                if generators.drawn():
                    generators.put_back()
            if close is not None:
                board[_WAY] = number
                board[_ROUNDED] |= int(close != BITS)
                self._told_if_enough()
                return
        self._verdict.refuse(reason or "at once, its transform gives something else")

    def _told_if_enough(self) -> None:
        board = self._verdict.board
        if board[_MADE] >= _COMPARED:
            rounded = "up to rounding" if board[_ROUNDED] else "to the bit"
            name = type(self._split.transform).__name__
            self._verdict.apply(f"the transform ({name}) is called once a batch, equal {rounded}")


def _put(batch: Any, path: list[Any], value: Any) -> Any:
    """The batch with `value` at a place in it."""
    if not path:
        return value
    holder = batch
    for key in path[:-1]:
        holder = holder[key]
    holder[path[-1]] = value
    return batch


def _mapped(transform: Any, raws: tuple[Any, ...]) -> Any:
    import torch

    return torch.vmap(transform)(_stacked(raws))


def _direct(transform: Any, raws: tuple[Any, ...]) -> Any:
    import torch

    return torch.as_tensor(transform(_stacked(raws)))


def _check_elementwise(transform: Any) -> None:
    """NotSplitError: a part of the transform may look beyond a sample of a batch."""
    for part in getattr(transform, "__dict__", {}).get("transforms") or [transform]:
        function = without_ours(part)
        owner = None
        if not hasattr(function, "__code__"):
            function, owner = getattr(type(part), "__call__", None), part  # noqa: B004
        reason = why_not_elementwise(function, owner)
        if reason:
            raise NotSplitError(f"{type(part).__name__}: {reason}")


_WAYS = (_mapped, _direct)


def _stacked(raws: tuple[Any, ...]) -> Any:
    import torch

    if isinstance(raws[0], torch.Tensor):
        return torch.stack(raws)
    if type(raws[0]).__module__ == "numpy" and raws[0].shape:
        import numpy as np

        if len({(one.dtype, one.shape) for one in raws}) == 1:
            return np.stack(raws)
    raise NotSplitError("what it is called with are no tensors or arrays of one shape")
