"""A function whose results are kept, by the content of its input."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import update_wrapper
from typing import Any

from stepscope.collect.digest import digest
from stepscope.session.preprocessing import Cache

__all__ = ["KeepsResults", "copied", "size_bytes"]

_PATIENCE = 1000  # inputs, before it is judged whether they come again


class KeepsResults:
    """The same function, which computes for an input that it has seen only what is in it.

    limit_bytes: of all results together. Results are copies: whoever changes one changes none but
    its own. Where inputs do not come again, nothing is kept any more after some rounds of the
    cache, and only the question remains that was asked until then. A process has its own.
    """

    def __init__(self, function: Callable[[Any], Any], limit_bytes: int, each_bytes: int) -> None:
        update_wrapper(self, function)
        self._function = function
        self._each_bytes = max(1, each_bytes)  # a result that is larger is not kept
        self._room = max(1, limit_bytes // self._each_bytes)
        self._forget()

    def _forget(self) -> None:
        self._cache: Cache | None = Cache(self._room)
        self.hits = self.misses = 0

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_cache": None, "hits": 0, "misses": 0}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._forget()

    def __call__(self, data: Any) -> Any:
        cache = self._cache
        key = digest(data) if cache is not None else None
        if cache is None or key is None:
            return self._function(data)
        try:
            known, result = cache.get(self._function, key)
        except KeyError:  # another thread has just let go of it
            known, result = False, None
        if known:
            self.hits += 1
            return copied(result)
        result = self._function(data)
        self.misses += 1
        if size_bytes(result) <= self._each_bytes:
            cache.put(self._function, key, copied(result))
        self._judge()
        return result

    def _judge(self) -> None:
        if self.misses >= max(_PATIENCE, 3 * self._room) and self.hits < self.misses / 10:
            self._cache = None


def copied(value: Any) -> Any:
    """The same, in a memory of its own."""
    if hasattr(value, "detach") and hasattr(value, "clone"):
        return value.clone()
    if isinstance(value, dict) and type(value) is dict:
        return {key: copied(one) for key, one in value.items()}
    if type(value) in (list, tuple):
        return type(value)(copied(one) for one in value)
    return copy.deepcopy(value)


def size_bytes(value: Any) -> int:
    """Of tensors, arrays and texts in it; other things count as one machine word each."""
    if hasattr(value, "nbytes"):
        return int(value.nbytes)
    if isinstance(value, dict):
        return sum(size_bytes(one) for one in value.values())
    if isinstance(value, list | tuple):
        return sum(size_bytes(one) for one in value)
    return len(value) if isinstance(value, str | bytes) else 8
