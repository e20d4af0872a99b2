"""Tensors in arguments and results, and how many bytes they hold, each storage counted once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

__all__ = ["storages", "tensors_in"]

_DEPTH = 8  # of containers: what is nested deeper, or in itself, is passed over


def tensors_in(values: Iterable[Any], depth: int = _DEPTH) -> Iterator[Any]:
    """Tensors in arguments or results, packed sequences and dataclasses of tensors included."""
    import torch

    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif depth and isinstance(value, dict):
            yield from tensors_in(value.values(), depth - 1)
        elif depth and isinstance(value, list | tuple):
            yield from tensors_in(value, depth - 1)
        elif depth and hasattr(value, "__dataclass_fields__"):
            fields = type(value).__dataclass_fields__
            yield from tensors_in((getattr(value, name, None) for name in fields), depth - 1)


def storages(tensors: Iterable[Any]) -> dict[int, int]:
    """Identity of each storage (valid while it lives) → its bytes."""
    found: dict[int, int] = {}
    for tensor in tensors:
        try:
            storage = tensor.untyped_storage()
        except (NotImplementedError, RuntimeError):  # sparse and other tensors have none
            found[id(tensor)] = tensor.element_size() * tensor.numel()
        else:
            found[storage._cdata] = storage.nbytes()
    return found
