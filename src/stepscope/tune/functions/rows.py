"""A function that goes through its input row by row, computed for all rows at once."""

from __future__ import annotations

from collections.abc import Callable
from functools import update_wrapper
from typing import Any

__all__ = ["RowsAtOnce", "variants"]

_AT_ONCE = 1024  # rows: more than that go in pieces, so that memory stays bounded
Function = Callable[[Any], Any]


class RowsAtOnce:
    """`[f(x) for x in data]` of the user's is asked for a single row, and torch.vmap gives that row
    all of them: so the loop goes round once. Input that is not like the sample, and whatever vmap
    cannot do, goes to the function itself."""

    def __init__(self, function: Function, sample: Any) -> None:
        update_wrapper(self, function)
        self._function = function
        self._like = _kind(sample)
        self._results = type(function(sample))
        if self._like is None:
            raise TypeError("its input has no rows of one kind")

    def __call__(self, data: Any) -> Any:
        if self._like is None or _kind(data) != self._like:
            return self._function(data)
        try:
            return self.at_once(data)
        except Exception:  # noqa: BLE001 - vmap's or the function's own: the latter comes again
            self._like = None
            return self._function(data)

    def at_once(self, data: Any) -> Any:
        import torch

        is_tensor = isinstance(data, torch.Tensor)
        kind, function = type(data), self._function
        listed = issubclass(self._results, list | tuple)

        def row(one: Any) -> Any:
            result = function(one.unsqueeze(0) if is_tensor else kind([one]))
            if len(result) != 1:
                raise TypeError("it does not give a result for each row")
            return result[0]

        rows = data if is_tensor else torch.stack(list(data))
        found = torch.vmap(row, chunk_size=_AT_ONCE if len(rows) > _AT_ONCE else None)(rows)
        # Each has a memory of its own, as the function's results had.
        return self._results([one.clone() for one in found]) if listed else found


def variants(data: Any) -> list[Any]:
    """The sample, its rows backwards, and the first half of them: a function that looks across rows
    gives itself away by one of these."""
    if _kind(data) is None:
        return [data]
    backwards = data.flip(0) if hasattr(data, "flip") else data[::-1]
    return [data, backwards, data[: max(1, len(data) // 2)]]


def _kind(data: Any) -> object:
    """What rows are like; None: there are none, or not all of them alike."""
    if hasattr(data, "detach") and hasattr(data, "dim"):
        if not data.dim() or not len(data):
            return None
        return "tensor", data.dtype, data.device, tuple(data.shape[1:]), data.requires_grad
    if not isinstance(data, list | tuple) or not data or type(data) not in (list, tuple):
        return None
    if not all(hasattr(one, "detach") and hasattr(one, "dim") for one in data):
        return None
    kinds = {(one.dtype, one.device, tuple(one.shape), one.requires_grad) for one in data}
    return (type(data), *kinds) if len(kinds) == 1 else None
