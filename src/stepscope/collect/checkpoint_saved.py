"""How many bytes a checkpoint does not keep for backward."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from stepscope.collect.graph_nodes import tensors_of

__all__ = ["Saved", "only_kept_for_it", "storages_bytes"]

_KEEPS_ITS_RESULT = ("_raw_saved_result", "_raw_saved_output")  # attributes of such nodes


class Saved:
    """The storages that autograd was about to keep during one forward, each once.

    They are known by weak references, because what a checkpoint does not keep is freed at once and
    its address used again. So it is also known which are kept all the same: arguments, parameters,
    buffers, the result, and what a policy of the program's keeps.
    """

    __slots__ = ("_given", "_of", "_weak")

    def __init__(self, weak: Callable[[Any], Any], given: dict[int, int]) -> None:
        """`weak`: torch.multiprocessing.reductions.StorageWeakRef. `given`: of `only_kept_for_it`;
        what the forward would have kept itself is taken out of it."""
        self._weak, self._given = weak, given
        self._of: dict[int, tuple[Any, int]] = {}

    def add(self, tensor: Any) -> None:
        storage = tensor.untyped_storage()
        if storage._cdata not in self._of:
            self._of[storage._cdata] = (self._weak(storage), storage.nbytes())
            self._given.pop(storage._cdata, None)

    def saved_bytes(self) -> int:
        """Of those that are gone by now, less the arguments that are there only because of it."""
        gone = sum(size for weak, size in self._of.values() if weak.expired())
        return max(0, gone - sum(self._given.values()))


def only_kept_for_it(values: Iterable[Any], plain: type) -> dict[int, int]:
    """Storages and sizes of the activations among the arguments of a call. A checkpoint keeps them
    for its recomputation; what made them does not, and who else would is the call itself."""
    found: dict[int, int] = {}
    for tensor in tensors_of(values, plain):
        node = tensor.grad_fn
        if node is not None and not any(hasattr(node, name) for name in _KEEPS_ITS_RESULT):
            storage = tensor.untyped_storage()
            found[storage._cdata] = storage.nbytes()
    return found


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
