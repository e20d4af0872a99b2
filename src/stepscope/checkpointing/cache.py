"""What recomputing gave, kept for the next backward through the same graph.

Bounded by bytes, the longest unused first out; what belongs to a graph goes with it.
"""

from __future__ import annotations

import threading
import weakref
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, NamedTuple

from stepscope.checkpointing.tensors import storages

__all__ = ["CacheInfo", "RecomputeCache", "Saved", "saved_by"]


class Saved(NamedTuple):
    """What a segment saves for backward, in torch's order."""

    tensors: tuple[Any, ...]
    parameters: tuple[Any, ...]  # that it was computed with
    versions: tuple[int, ...]  # of both: one that was changed in place since makes it worthless
    size_bytes: int  # of storages that live for it alone
    ready: Any = None  # where another stream computes it: what a consumer has to wait for

    @property
    def is_valid(self) -> bool:
        return _versions(self.tensors, self.parameters) == self.versions


class CacheInfo(NamedTuple):
    """Counts since the engine was made; `bytes` and `entries`: of now."""

    hits: int
    misses: int
    bytes: int
    entries: int
    evicted: int  # to make room
    refused: int  # larger than the whole cache


def saved_by(
    tensors: Sequence[Any], parameters: Sequence[Any], lasting: Sequence[Any], ready: Any = None
) -> Saved:
    """`lasting`: buffers and arguments, which like the parameters live anyway."""
    own = storages(tensors)
    for storage in storages((*parameters, *lasting)):
        own.pop(storage, None)
    return Saved(
        tuple(tensors),
        tuple(parameters),
        _versions(tensors, parameters),
        sum(own.values()),
        ready,
    )


def _versions(tensors: Sequence[Any], parameters: Sequence[Any]) -> tuple[int, ...]:
    every = (*tensors, *parameters)
    return tuple(0 if one.is_inference() else one._version for one in every)


class RecomputeCache:
    """Entries by the call that they belong to. Thread safe: backward runs in threads of torch's."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        # A call may die, and its entry go, while this thread is in here already.
        self._lock = threading.RLock()
        self._entries: OrderedDict[weakref.ref[Any], Saved] = OrderedDict()
        self._bytes = self._hits = self._misses = self._evicted = self._refused = 0

    def get(self, call: Any) -> Saved | None:
        """Counted as a hit or a miss. An entry whose tensors were changed since is none."""
        key = weakref.ref(call)
        with self._lock:
            entry = self._entries.get(key)
            if entry is not None and not entry.is_valid:
                self._drop(key)
                entry = None
            if entry is None:
                self._misses += 1
                return None
            self._hits += 1
            self._entries.move_to_end(key)
            return entry

    def has(self, call: Any) -> bool:
        """Not counted as asking for it."""
        with self._lock:
            entry = self._entries.get(weakref.ref(call))
            return entry is not None and entry.is_valid

    def put(self, call: Any, entry: Saved) -> None:
        with self._lock:
            self._drop(weakref.ref(call))
            if entry.size_bytes > self._most_bytes:
                self._refused += 1
                return
            self._entries[weakref.ref(call, self._drop)] = entry
            self._bytes += entry.size_bytes
            while self._bytes > self._most_bytes:
                self._drop(next(iter(self._entries)))
                self._evicted += 1

    def clear(self) -> None:
        with self._lock:
            self._entries.clear()
            self._bytes = 0

    def info(self) -> CacheInfo:
        with self._lock:
            return CacheInfo(
                self._hits,
                self._misses,
                self._bytes,
                len(self._entries),
                self._evicted,
                self._refused,
            )

    def _drop(self, key: weakref.ref[Any]) -> None:
        with self._lock:
            entry = self._entries.pop(key, None)
            if entry is not None:
                self._bytes -= entry.size_bytes
