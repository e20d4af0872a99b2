"""Keeping the results of dear operators: torch's selective checkpoints, without their pitfalls.

torch's own refuse, in backward, a segment that changes a kept result in place (a convolution
followed by `ReLU(inplace=True)`), and a second backward. A plan must not end a training that ran
without it: here a result that was changed is computed again, and in a second backward all are.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Callable
from typing import Any, NamedTuple

__all__ = ["keeping"]

Wanted = Callable[[Any, tuple[Any, ...], dict[str, Any]], bool]


class _Kept(NamedTuple):
    """An operator's result without its graph, in the shape that it was returned in."""

    leaves: tuple[Any, ...]
    shape: Any
    versions: tuple[int | None, ...]

    @property
    def is_unchanged(self) -> bool:
        return _versions(self.leaves) == self.versions


def keeping(wanted: Wanted) -> tuple[Any, Any]:
    """The contexts of one checkpoint: around its forward, and around each recomputation."""
    keep, give = _modes()
    kept: dict[Any, list[_Kept | None]] = defaultdict(list)
    return keep(wanted, kept), give(wanted, kept)


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
def _modes() -> tuple[Any, Any]:
    """Made when torch is there."""
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._pytree import tree_unflatten

    class Mode(TorchDispatchMode):  # type: ignore[misc]  # torch is Any to mypy
        def __init__(self, wanted: Wanted, kept: dict[Any, list[_Kept | None]]) -> None:
            super().__init__()
            self._wanted, self._kept = wanted, kept

    class Keep(Mode):
        def __torch_dispatch__(self, func: Any, _types: Any, args: Any, kwargs: Any = None) -> Any:
            kwargs = kwargs or {}
            result = func(*args, **kwargs)
            if self._wanted(func, args, kwargs):
                self._kept[func].append(_kept(result))
            return result

        def __exit__(self, *error: Any) -> Any:
            """What forward changed itself is of no use: let go of it at once."""
            for func, results in self._kept.items():
                self._kept[func] = [one if one and one.is_unchanged else None for one in results]
            return super().__exit__(*error)

    class Give(Mode):
        def __enter__(self) -> Any:
            self._given: dict[Any, int] = defaultdict(int)
            return super().__enter__()

        def __torch_dispatch__(self, func: Any, _types: Any, args: Any, kwargs: Any = None) -> Any:
            kwargs = kwargs or {}
            kept = self._next(func) if self._wanted(func, args, kwargs) else None
            if kept is None or not kept.is_unchanged:
                return func(*args, **kwargs)
            # An alias each time: autograd is going to put a graph on what is returned.
            return tree_unflatten(list(map(_without_graph, kept.leaves)), kept.shape)

        def _next(self, func: Any) -> _Kept | None:
            """It is given once: held on to, it would stay until the whole segment is through."""
            at, results = self._given[func], self._kept.get(func, [])
            self._given[func] += 1
            if at >= len(results):
                return None
            kept, results[at] = results[at], None
            return kept

    return Keep, Give
