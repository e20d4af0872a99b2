"""Buffers that a forward changes, such as running statistics, are changed once.

In forward the values that they had before are put aside; recomputing works on copies of these, in
the modules' own places, and the buffers themselves come back after it. So a forward that reads what
it changes (power iteration of a spectral norm) computes the same again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["BufferHabits", "BuffersBefore"]

Stores = list[dict[str, Any]]  # the `_buffers` of modules
Place = tuple[int, str]  # in Stores: which, and the buffer's name


class BufferHabits:
    """What is known of a segment: which of its buffers forward changes, in training and in
    evaluation. Only these are put aside, from the second forward on."""

    def __init__(self) -> None:
        self._changing: dict[bool, frozenset[Place]] = {}

    def before(self, modules: Iterable[Any], training: bool) -> BuffersBefore | None:
        """To be called before a forward. None: there are no buffers."""
        stores = [module._buffers for module in modules if module._buffers]
        return BuffersBefore(stores, self._changing.get(training)) if stores else None

    def learn(self, before: BuffersBefore, training: bool) -> None:
        """To be called after it."""
        changed = before.settle()
        self._changing[training] = self._changing.get(training, frozenset()) | changed


class BuffersBefore:
    """The buffers of a segment as they were before one forward."""

    def __init__(self, stores: Stores, changing: frozenset[Place] | None) -> None:
        self._stores = stores
        self._seen = [
            ((at, name), buffer, _version(buffer))
            for at, store in enumerate(stores)
            for name, buffer in store.items()
            if buffer is not None
        ]
        self._aside = {
            place: buffer.detach().clone()
            for place, buffer, _ in self._seen
            if changing is None or place in changing
        }

    def settle(self) -> frozenset[Place]:
        """Forward is over: which buffers it changed. The copies of all others are let go."""
        changed = {
            place: buffer
            for place, buffer, version in self._seen
            if self._stores[place[0]].get(place[1]) is not buffer or _version(buffer) != version
        }
        # One that never changed before was not put aside; its value of now is the nearest there is.
        self._aside = {
            place: self._aside[place] if place in self._aside else buffer.detach().clone()
            for place, buffer in changed.items()
        }
        self._seen = []
        return frozenset(changed)

    @contextmanager
    def put_in(self) -> Iterator[None]:
        """While recomputing, which may end with an exception of torch's that has to pass."""
        present = [dict(store) for store in self._stores]
        for (at, name), value in self._aside.items():
            self._stores[at][name] = value.clone()
        try:
            yield
        finally:
            for store, entries in zip(self._stores, present, strict=True):
                store.clear()
                store.update(entries)


def _version(buffer: Any) -> int:
    """Grows with every change in place; tensors of inference mode have none and cannot change."""
    return 0 if buffer.is_inference() else int(buffer._version)
