"""Buffers that a forward changes, such as running statistics, are changed once.

In forward the values that they had before are put aside; recomputing works on copies of these, in
the modules' own places, and the buffers themselves come back after it. So a forward that reads what
it changes (power iteration of a spectral norm) computes the same again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

__all__ = ["BufferHabits", "BuffersBefore", "copied", "version_of"]

Buffers = dict[str, Any]  # a module's `_buffers`


class BufferHabits:
    """What is known of a segment: which of its modules change buffers, in training and in
    evaluation. Only their buffers are put aside, from the second forward on."""

    def __init__(self) -> None:
        self._changing: dict[bool, frozenset[int]] = {}

    def before(self, modules: Iterable[Any], training: bool) -> BuffersBefore | None:
        """To be called before a forward. None: there are no buffers."""
        stores = [module._buffers for module in modules if module._buffers]
        return BuffersBefore(stores, self._changing.get(training)) if stores else None

    def learn(self, before: BuffersBefore, training: bool) -> None:
        """To be called after it."""
        changing = before.settle()
        self._changing[training] = self._changing.get(training, frozenset()) | changing


class BuffersBefore:
    """The buffers of a segment's modules as they were before one forward.

    Modules go by their place among those with buffers. All buffers of a module are taken together:
    torch counts the changes in place of most tensors, but not those of running statistics, and
    these stand beside a number of batches that it does count.
    """

    def __init__(self, stores: list[Buffers], changing: frozenset[int] | None) -> None:
        self._stores = stores
        self._is_first = changing is None
        self._seen = [
            {name: (buffer, version_of(buffer)) for name, buffer in _there(store)}
            for store in stores
        ]
        self._aside = {
            at: {name: copied(buffer.detach()) for name, buffer in _there(store)}
            for at, store in enumerate(stores)
            if changing is None or at in changing
        }

    def settle(self) -> frozenset[int]:
        """Forward is over: which modules changed buffers. The copies of others are let go."""
        changing = frozenset(at for at in range(len(self._stores)) if self._has_changed(at))
        if self._is_first:
            self._aside = {at: self._aside[at] for at in changing}
        # One that never changed before was not put aside; its values of now are the nearest there
        # are.
        for at in changing - self._aside.keys():
            there = _there(self._stores[at])
            self._aside[at] = {name: copied(buffer.detach()) for name, buffer in there}
        self._seen = []
        return changing

    def _has_changed(self, at: int) -> bool:
        store, seen = self._stores[at], self._seen[at]
        return store.keys() < seen.keys() or any(
            name not in seen
            or buffer is not seen[name][0]
            or version_of(buffer) != seen[name][1]
            # Looking at values makes a GPU wait, so only once.
            or (self._is_first and not _same(buffer, self._aside[at][name]))
            for name, buffer in _there(store)
        )

    @contextmanager
    def put_in(self) -> Iterator[None]:
        """While recomputing, which may end with an exception of torch's that has to pass."""
        present = [dict(store) for store in self._stores]
        for at, values in self._aside.items():
            self._stores[at].update((name, copied(value)) for name, value in values.items())
        try:
            yield
        finally:
            for store, entries in zip(self._stores, present, strict=True):
                store.clear()
                store.update(entries)


def _there(store: Buffers) -> list[tuple[str, Any]]:
    return [(name, buffer) for name, buffer in store.items() if buffer is not None]


def copied(tensor: Any) -> Any:
    with _unseen(tensor):
        return tensor.clone()


def _same(one: Any, other: Any) -> bool:
    with _unseen(one):
        return bool(one.equal(other))


def _unseen(tensor: Any) -> AbstractContextManager[Any]:
    """By the modes of selective checkpoints, which count the operators of the program. Kinds of
    tensors that are written in Python cannot do without dispatch."""
    from torch import Tensor
    from torch.nn import Parameter
    from torch.utils._mode_utils import no_dispatch

    return no_dispatch() if type(tensor) in (Tensor, Parameter) else nullcontext()


def version_of(tensor: Any) -> int:
    """Grows with changes in place; tensors of inference mode have none and cannot change."""
    return 0 if tensor.is_inference() else int(tensor._version)
