"""How many bytes a checkpoint does not keep for backward."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from stepscope.collect.graph_nodes import tensors_of

__all__ = ["Saved", "storages_bytes"]


class Saved:
    """The storages that autograd was about to keep during one forward, each once.

    They are known by weak references, because what a checkpoint does not keep is freed at once and
    its address used again. So it is also known which are kept all the same: arguments, parameters,
    buffers, the result, and what a policy of the program's keeps.
    """

    __slots__ = ("_of", "_weak")

    def __init__(self, weak: Callable[[Any], Any]) -> None:
        """`weak`: torch.multiprocessing.reductions.StorageWeakRef."""
        self._weak = weak
        self._of: dict[int, tuple[Any, int]] = {}

    def add(self, tensor: Any) -> None:
        storage = tensor.untyped_storage()
        if storage._cdata not in self._of:
            self._of[storage._cdata] = (self._weak(storage), storage.nbytes())

    def freed_bytes(self) -> int:
        """Of those that are gone by now."""
        return sum(size for weak, size in self._of.values() if weak.expired())


def storages_bytes(values: Iterable[Any], plain: type) -> int:
    """Of the tensors in the arguments of a call, each storage once."""
    sizes: dict[int, int] = {}
    for tensor in tensors_of(values, plain):
        try:
            storage = tensor.untyped_storage()
        except (NotImplementedError, RuntimeError):  # sparse ones have none
            continue
        sizes[storage._cdata] = storage.nbytes()
    return sum(sizes.values())
