"""How many of the numbers that a step works with are subnormal, from a small sample."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

__all__ = ["TENSORS", "DenormalCount", "SubnormalShare", "nobody_watches"]

ELEMENTS = 512  # of each tensor
FEW = 64  # where one tensor is looked at by itself
TENSORS = 24  # of each kind: activations, gradients, parameters


class DenormalCount:
    """`add` tensors of the host (on a device subnormal numbers cost nothing), then `count`."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self._random = 1  # the program's own generators are not ours to use
        self._ours = torch.Generator().manual_seed(1)
        self._taken: dict[Any, list[Any]] = {}  # dtype → values
        self.looked = self.found = 0

    @property
    def share(self) -> float:
        return self.found / self.looked if self.looked else 0.0

    def add(self, tensor: Any) -> None:
        """Take some elements of it, each of them by chance: what lies evenly apart may be alike."""
        torch = self._torch
        if (
            type(tensor) not in (torch.Tensor, torch.nn.Parameter)
            or tensor.device.type != "cpu"
            or tensor.layout is not torch.strided
            or not tensor.is_floating_point()
            or not tensor.numel()
        ):
            return
        with torch.no_grad():
            # A copy: the program may change the tensor, and is to be free to let go of it.
            self._taken.setdefault(tensor.dtype, []).append(self._some_of(tensor.detach()))

    def add_some(self, tensors: Iterable[Any]) -> None:
        every = [tensor for tensor in tensors if tensor is not None]
        apart = max(1, len(every) // TENSORS)
        for tensor in every[self._below(apart) :: apart][:TENSORS]:
            self.add(tensor)

    def count(self) -> None:
        """Look at what was taken. On its own, for it asks tensors for their values."""
        torch = self._torch
        with torch.no_grad():
            for dtype, taken in self._taken.items():
                size = torch.cat(taken).abs()
                self.looked += size.numel()
                self.found += int(((size > 0) & (size < torch.finfo(dtype).tiny)).sum())
        self._taken.clear()

    def forget(self) -> None:
        self._taken.clear()

    def _below(self, limit: int) -> int:
        """A number that follows no pattern of the program's. Python's own module for them would be
        compiled where a compiled program calls us."""
        self._random = (self._random * 1103515245 + 12345) & 0x7FFFFFFF
        return (self._random >> 8) % limit

    def _some_of(self, tensor: Any) -> Any:
        if tensor.is_contiguous():
            flat = tensor.view(-1)
        elif tensor.dim() == 4 and tensor.is_contiguous(memory_format=self._torch.channels_last):
            flat = tensor.permute(0, 2, 3, 1).view(-1)
        else:  # a row of it: no copy of the whole
            while tensor.dim() > 1:
                tensor = tensor[self._below(tensor.shape[0])]
            flat = tensor
        if flat.shape[0] <= ELEMENTS:
            return flat.clone()
        return flat[self._torch.randint(flat.shape[0], (ELEMENTS,), generator=self._ours)]


def nobody_watches(torch: Any) -> bool:
    """Whether operators that we run are seen by nobody: no mode of the program's is on."""
    return bool(
        torch._C._len_torch_dispatch_stack() == 0
        and torch._C._len_torch_function_stack() == 0
        and torch._C._functorch.peek_interpreter_stack() is None
    )


class SubnormalShare:
    """Of the values of one tensor on the host, from a few of them taken by chance."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self._ours = torch.Generator().manual_seed(1)

    def of(self, tensor: Any) -> float:
        """0 for what is no such tensor."""
        torch = self._torch
        if (
            type(tensor) not in (torch.Tensor, torch.nn.Parameter)
            or tensor.device.type != "cpu"
            or tensor.dtype not in (torch.float32, torch.float64)
            or not tensor.is_contiguous()
            or not tensor.numel()
        ):
            return 0.0
        with torch.no_grad():
            some = torch.randint(tensor.numel(), (FEW,), generator=self._ours)
            size = tensor.detach().view(-1)[some].abs_()
            return float(((size > 0) & (size < torch.finfo(tensor.dtype).tiny)).double().mean())
