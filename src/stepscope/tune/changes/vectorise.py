"""The transform of a dataset over a batch at once, in the place of one call for each sample."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

from stepscope.tune.injection import Injection
from stepscope.tune.loading.both_ways import AtOnce, BothWays, Way, why_no_batches
from stepscope.tune.loading.closeness import BITS, ROUNDING
from stepscope.tune.loading.elementwise import why_not_elementwise, without_ours
from stepscope.tune.loading.feeds import Feed, follow
from stepscope.tune.loading.split import NotSplitError, Split, filled, path_of
from stepscope.tune.loading.stages import length_of, listed, open_stages
from stepscope.tune.loading.verdict import Verdict

__all__ = ["Vectorise"]


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
        if verdict.refused_for(lambda: why_no_batches(fetcher, "transform")):
            return
        try:
            split = Split(fetcher.dataset)
        except NotSplitError as error:
            verdict.refuse(str(error))
            return
        stages = open_stages(fetcher)
        at_once = _Transformed(fetcher.dataset, split)
        stages.whole.append(BothWays(at_once, stages.one_by_one, verdict))


class _Transformed(AtOnce):
    """Batches whose transform is called once."""

    may_round = True
    participle = "transformed"
    differs = "at once, its transform gives something else"

    def __init__(self, dataset: Any, split: Split) -> None:
        mapped = Way(partial(_made, split, _mapped))
        direct = Way(partial(_made, split, _direct), lambda: _check_elementwise(split.transform))
        super().__init__(dataset, [mapped, direct])
        self._split = split

    def indices(self, index: Any) -> list[int] | None:
        return listed(index, length_of(self.dataset))

    def what(self, rounded: bool) -> str:
        name = type(self._split.transform).__name__
        equal = ROUNDING if rounded else BITS
        return f"the transform ({name}) is called once a batch, equal {equal}"

    def why_failed(self, error: Exception) -> str:
        return f"it cannot be done at once: {error}"[:200]


def _made(split: Split, call: Callable[[Any, tuple[Any, ...]], Any], indices: list[int]) -> Any:
    from torch.utils.data import default_collate

    samples, raws = zip(*(split.raw(index) for index in indices), strict=True)
    batch = default_collate([filled(sample, 0) for sample in samples])
    return _put(batch, path_of(samples[0]), call(split.transform, raws))


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


def _stacked(raws: tuple[Any, ...]) -> Any:
    import torch

    if isinstance(raws[0], torch.Tensor):
        return torch.stack(raws)
    if type(raws[0]).__module__ == "numpy" and raws[0].shape:
        import numpy as np

        if len({(one.dtype, one.shape) for one in raws}) == 1:
            return np.stack(raws)
    raise NotSplitError("what it is called with are no tensors or arrays of one shape")
