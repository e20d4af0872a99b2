"""Many parts of a batch in one piece of shared memory, from a worker to the training process.

In the worker, what is packed is replaced by stand-ins. Unpickled, these are what they stand for:
nobody has to open anything, and whoever receives the batch gets what he would have got without us.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple

__all__ = ["packed"]

SMALL_ARRAY_BYTES = 16_384  # less than this is left where it is
FEW_BYTES = 1 << 21  # of arrays in a batch: up to here, the pipe is no dearer than shared memory
LARGE_TENSOR_BYTES = 65_536  # more than this is worth a piece of its own, which torch gives it
FEW_TENSORS = 8
_ALIGNED = 64  # bytes
_DEPTH = 6


class _Part(NamedTuple):
    """Where a thing lies in the piece, and what it is: "tensor" or "array"."""

    kind: str
    start: int
    stop: int
    dtype: Any
    shape: tuple[int, ...]
    fortran: bool


class _Piece:
    """The shared memory of one batch. Unpickled, it is the list of what lies in it."""

    def __init__(self) -> None:
        self.parts: list[_Part] = []
        self.sources: list[Any] = []
        self.size = 0
        self._memory: Any = None

    def add(self, kind: str, source: Any, nbytes: int) -> _StandIn:
        start = -(-self.size // _ALIGNED) * _ALIGNED
        self.size = start + nbytes
        shape, fortran = tuple(source.shape), kind == "array" and _is_fortran(source)
        self.parts.append(_Part(kind, start, self.size, source.dtype, shape, fortran))
        self.sources.append(source)
        return _StandIn(self, len(self.parts) - 1)

    def fill(self) -> None:
        """Copy everything into shared memory: once, and here, not when the queue gets to it."""
        import torch

        file = os.memfd_create("stepscope-batch")
        try:
            os.ftruncate(file, self.size)
            for part, source in zip(self.parts, self.sources, strict=True):
                # Written, not copied into a mapping: that takes half the time for new pages.
                _write(file, _bytes_of(source), part.start)
            storage = torch.UntypedStorage._new_shared_fd_cpu(file, self.size)
        finally:
            os.close(file)
        self._memory = torch.empty(0, dtype=torch.uint8).set_(storage, 0, (self.size,))
        self.sources = []

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return _unpacked, (self._memory, [tuple(part) for part in self.parts])


class _StandIn:
    """For one thing of a piece. The same one wherever the batch has the same thing."""

    __slots__ = ("_number", "_piece")

    def __init__(self, piece: _Piece, number: int) -> None:
        self._piece, self._number = piece, number

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return _taken, (self._piece, self._number)

    # Whoever asks how large a batch is gets the answer that the tensors would give.
    def untyped_storage(self) -> Any:
        return self._piece

    def numel(self) -> int:
        part = self._piece.parts[self._number]
        return part.stop - part.start

    def element_size(self) -> int:
        return 1


def _unpacked(memory: Any, parts: list[tuple[Any, ...]]) -> list[Any]:
    return [_rebuilt(memory, _Part(*part)) for part in parts]


def _taken(things: list[Any], number: int) -> Any:
    return things[number]


def _rebuilt(memory: Any, part: _Part) -> Any:
    if part.kind == "tensor":
        return _tensor(memory, part)
    raw = memory.numpy()[part.start : part.stop]
    return raw.view(part.dtype).reshape(part.shape, order="F" if part.fortran else "C")


def _tensor(memory: Any, part: _Part) -> Any:
    return memory[part.start : part.stop].view(part.dtype).view(part.shape)


def _bytes_of(source: Any) -> memoryview:
    """A tensor or an array as bytes in the order in which it lies in memory."""
    import numpy as np
    import torch

    if isinstance(source, torch.Tensor):
        return memoryview(source.reshape(-1).view(torch.uint8).numpy())
    lying: Any = source.T if _is_fortran(source) else np.ascontiguousarray(source)
    return memoryview(lying.reshape(-1).view(np.uint8))


def _write(file: int, data: memoryview, at: int) -> None:
    done = 0
    while done < len(data):
        done += os.pwrite(file, data[done:], at + done)


def _is_fortran(source: Any) -> bool:
    return bool(source.flags.f_contiguous and not source.flags.c_contiguous)


def packed(batch: Any) -> Any:
    """The batch with stand-ins for its arrays and many small tensors.

    The batch itself where there is too little to gain by it: lists of numbers, say, are no dearer
    in the pipe.
    """
    import torch

    if torch.multiprocessing.get_sharing_strategy() != "file_descriptor":
        return batch
    packer = _Packer()
    packer.look(batch, _DEPTH)
    if not packer.pays():
        return batch
    found = packer.replaced(batch, _DEPTH)
    packer.piece.fill()
    return found


class _Packer:
    def __init__(self) -> None:
        self.piece = _Piece()
        self._arrays: dict[int, Any] = {}
        self._tensors: dict[int, Any] = {}
        self._made: dict[int, Any] = {}
        self._met: set[int] = set()

    def look(self, value: Any, depth: int) -> None:
        """Find what could be packed."""
        if id(value) in self._met or not depth:
            return
        self._met.add(id(value))
        kind = type(value)
        name = (kind.__module__, kind.__name__)
        if name == ("numpy", "ndarray"):
            if value.nbytes >= SMALL_ARRAY_BYTES and not value.dtype.hasobject:
                self._arrays[id(value)] = value
        elif name == ("torch", "Tensor"):
            if _is_small(value):
                self._tensors[id(value)] = value
        elif kind in (list, tuple) or isinstance(value, tuple):
            for one in value:
                self.look(one, depth - 1)
        elif kind is dict:
            for one in value.values():
                self.look(one, depth - 1)

    def pays(self) -> bool:
        if len(self._tensors) < FEW_TENSORS or _overlap(self._tensors.values()):
            self._tensors = {}
        if sum(one.nbytes for one in self._arrays.values()) < FEW_BYTES and not self._tensors:
            self._arrays = {}
        return bool(self._arrays or self._tensors)

    def replaced(self, value: Any, depth: int) -> Any:
        """The same, with stand-ins."""
        key = id(value)
        if key in self._made:
            return self._made[key]
        if not depth or key not in self._met:
            return value
        self._made[key] = value  # a list that holds itself is left as it is
        self._made[key] = made = self._replacement(value, depth)
        return made

    def _replacement(self, value: Any, depth: int) -> Any:
        key, kind = id(value), type(value)
        if key in self._arrays:
            return self.piece.add("array", value, value.nbytes)
        if key in self._tensors:
            return self.piece.add("tensor", value, value.numel() * value.element_size())
        if kind is dict:
            return {name: self.replaced(one, depth - 1) for name, one in value.items()}
        if kind in (list, tuple):
            return kind(self.replaced(one, depth - 1) for one in value)
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return kind(*(self.replaced(one, depth - 1) for one in value))
        return value


def _is_small(tensor: Any) -> bool:
    """A plain tensor that torch would send in a piece of its own for little."""
    import torch

    return bool(
        tensor.layout is torch.strided
        and tensor.device.type == "cpu"
        and 0 < tensor.numel() * tensor.element_size() < LARGE_TENSOR_BYTES
        and tensor.is_contiguous()
        and not tensor.requires_grad
        and not tensor.is_conj()
        and not tensor.is_neg()
        and not tensor.is_quantized
    )


def _overlap(tensors: Any) -> bool:
    """Whether two of them have memory in common, which the program could tell by writing."""
    spans = sorted(
        (one.data_ptr(), one.data_ptr() + one.numel() * one.element_size()) for one in tensors
    )
    return any(later[0] < earlier[1] for earlier, later in pairwise(spans))
