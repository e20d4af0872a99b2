"""What blocks are for: the storages of parameters, gradients, optimizer state and batches."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from stepscope.collect.graph_nodes import tensors_of
from stepscope.collect.sampled import Roots

if TYPE_CHECKING:
    from stepscope.record.protocol import TensorHeap

__all__ = ["GRADIENT", "INPUT", "OPTIMIZER_STATE", "PARAMETER", "Labels", "storage_address"]

# Places in model/memory.py's CATEGORIES, from 1. The training process does without that module.
PARAMETER, OPTIMIZER_STATE, GRADIENT, _ACTIVATION, INPUT = range(1, 6)


class Labels:
    """Looks up what is known by name, and tells the heap which of its blocks that is."""

    def __init__(self, roots: Roots) -> None:
        self._roots = roots

    def tell(self, heap: TensorHeap, optimizers: Iterable[Any]) -> None:
        """Parameters, buffers, gradients and optimizer state as they are now."""
        optimizers = list(optimizers)
        parameters = {id(one): one for one in self._parameters(optimizers)}.values()
        gradients = (one.grad for one in parameters if one.grad is not None)
        for label, tensors in (
            (OPTIMIZER_STATE, _state(optimizers)),
            (GRADIENT, gradients),
            (PARAMETER, (*parameters, *self._buffers())),
        ):
            _label(heap, label, tensors)

    def tell_input(self, heap: TensorHeap, given: tuple[Any, ...]) -> None:
        """What a model was called with."""
        torch: Any = sys.modules["torch"]
        _label(heap, INPUT, tensors_of(given, torch.Tensor))

    def _parameters(self, optimizers: Iterable[Any]) -> Iterator[Any]:
        for module in self._roots.modules():
            yield from module.parameters()
        for optimizer in optimizers:
            for group in optimizer.param_groups:
                yield from group["params"]

    def _buffers(self) -> Iterator[Any]:
        for module in self._roots.modules():
            yield from module.buffers()


def _state(optimizers: Iterable[Any]) -> Iterator[Any]:
    torch: Any = sys.modules["torch"]
    for optimizer in optimizers:
        for state in list(optimizer.state.values()):
            if isinstance(state, dict):
                yield from tensors_of(state.values(), torch.Tensor)


def _label(heap: TensorHeap, label: int, tensors: Iterable[Any]) -> None:
    for tensor in tensors:
        address = storage_address(tensor)
        if address:
            heap.label(address, label)


def storage_address(tensor: Any) -> int:
    """Where its bytes are; 0: not in this process's memory, or nobody can say."""
    try:
        if tensor.device.type != "cpu":
            return 0
        return int(tensor.untyped_storage().data_ptr())
    except (RuntimeError, NotImplementedError, AttributeError):  # sparse, fake, …
        return 0
