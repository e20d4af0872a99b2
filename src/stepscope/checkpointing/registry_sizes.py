"""How many bytes tensors hold, each storage counted once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

__all__ = ["storages", "tensors_in"]


def tensors_in(value: Any) -> list[Any]:
    """Those in tuples, lists, dicts and whatever else torch knows to look into."""
    import torch
    from torch.utils._pytree import tree_leaves

    return [leaf for leaf in tree_leaves(value) if isinstance(leaf, torch.Tensor)]


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
