"""How many of the values of a tensor are subnormal, from a small sample."""

from __future__ import annotations

from typing import Any

__all__ = ["SubnormalShare", "nobody_watches"]

FEW = 64  # values of a tensor


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
