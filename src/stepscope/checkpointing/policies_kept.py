"""Keeping the results of dear operators: torch's selective checkpoints, without their pitfalls.

torch's own refuse, in backward, a segment that changes a kept result in place (a convolution
followed by `ReLU(inplace=True)`), and a second backward. A plan must not end a training that ran
without it: here a result that was changed is computed again, and in a second backward all are.

On a CPU most of what is left to recompute would be the random numbers of dropout. What they decided
is kept too, a byte for each: that is a quarter of what dropout keeps, and exact. Where a segment
draws random numbers in another way as well, all of them are drawn again, in their order.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Callable
from typing import Any, NamedTuple

__all__ = ["Keeping", "keeping"]

Asked = Callable[[Any, tuple[Any, ...], dict[str, Any]], bool]


class Keeping(NamedTuple):
    """What is asked of each operator."""

    wanted: Asked  # its result is kept
    decides: Callable[[Any], bool]  # it fills its argument with zeros and ones, by chance
    draws: Asked  # it takes random numbers in another way


class _Kept(NamedTuple):
    """An operator's result without its graph, in the shape that it was returned in."""

    leaves: tuple[Any, ...]
    shape: Any
    versions: tuple[int | None, ...]

    @property
    def is_unchanged(self) -> bool:
        return _versions(self.leaves) == self.versions


class _Store:
    """What the forward of one checkpoint left for its recomputation."""

    def __init__(self) -> None:
        self.results: dict[Any, list[_Kept | None]] = defaultdict(list)
        self.decided: list[Any] = []  # as booleans; None: given already
        self.draws_otherwise = False


def keeping(asked: Keeping) -> tuple[Any, Any]:
    """The contexts of one checkpoint: around its forward, and around each recomputation."""
    store = _Store()
    return _keep_mode()(asked, store), _give_mode()(asked, store)


def _kept(result: Any) -> _Kept:
    from torch.utils._pytree import tree_flatten

    leaves, shape = tree_flatten(result)
    plain = tuple(map(_without_graph, leaves))
    return _Kept(plain, shape, _versions(plain))


def _versions(leaves: tuple[Any, ...]) -> tuple[int | None, ...]:
    return tuple(getattr(leaf, "_version", None) for leaf in leaves)


def _without_graph(leaf: Any) -> Any:
    import torch

    if not isinstance(leaf, torch.Tensor):
        return leaf
    # Below autograd an alias would not share the count of changes in place unless it is asked to.
    views = torch._C.DispatchKey.ADInplaceOrView
    with torch._C._SetExcludeDispatchKeyGuard(views, False):
        return leaf.detach()


@functools.cache
def _mode() -> Any:
    """Made when torch is there."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Mode(TorchDispatchMode):  # type: ignore[misc]  # torch is Any to mypy
        def __init__(self, asked: Keeping, store: _Store) -> None:
            super().__init__()
            self._asked, self._store = asked, store

    return Mode


@functools.cache
def _keep_mode() -> Any:
    class Keep(_mode()):  # type: ignore[misc]
        def __torch_dispatch__(self, func: Any, _types: Any, args: Any, kwargs: Any = None) -> Any:
            kwargs = kwargs or {}
            result = func(*args, **kwargs)
            asked, store = self._asked, self._store
            if asked.wanted(func, args, kwargs):
                store.results[func].append(_kept(result))
            elif asked.decides(func):
                store.decided.append(result.bool())
            elif asked.draws(func, args, kwargs):
                store.draws_otherwise = True
            return result

        def __exit__(self, *error: Any) -> Any:
            """What is of no use is let go of at once: what forward changed itself, and decisions
            that will be made again."""
            store = self._store
            for func, results in store.results.items():
                store.results[func] = [one if one and one.is_unchanged else None for one in results]
            if store.draws_otherwise:
                store.decided.clear()
            return super().__exit__(*error)

    return Keep


@functools.cache
def _give_mode() -> Any:
    from torch.utils._pytree import tree_unflatten

    class Give(_mode()):  # type: ignore[misc]
        def __enter__(self) -> Any:
            self._given: dict[Any, int] = defaultdict(int)
            return super().__enter__()

        def __torch_dispatch__(self, func: Any, _types: Any, args: Any, kwargs: Any = None) -> Any:
            kwargs = kwargs or {}
            asked, store = self._asked, self._store
            if asked.decides(func):
                decided = self._next(func, store.decided)
                return func(*args, **kwargs) if decided is None else args[0].copy_(decided)
            wanted = asked.wanted(func, args, kwargs)
            kept = self._next(func, store.results.get(func, [])) if wanted else None
            if kept is None or not kept.is_unchanged:
                return func(*args, **kwargs)
            # An alias each time: autograd is going to put a graph on what is returned.
            return tree_unflatten(list(map(_without_graph, kept.leaves)), kept.shape)

        def _next(self, func: Any, kept: list[Any]) -> Any:
            """It is given once: held on to, it would stay until the whole segment is through."""
            at = self._given[func]
            self._given[func] += 1
            if at >= len(kept):
                return None
            found, kept[at] = kept[at], None
            return found

    return Give
