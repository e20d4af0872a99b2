"""Tensors moved from one device to another → `transfer` spans.

Only where there is an accelerator: on a machine without one no tensor ever moves, and the many
`.to(dtype)` calls of a program should not pay for looking.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

from stepscope.collect.chain import spanned
from stepscope.collect.hooking import HookingCollector
from stepscope.model import names
from stepscope.record.recorder import Recorder

__all__ = ["TransferCollector", "accelerator_present"]

# Asking torch would start the accelerator's runtime, after which the program could not fork.
_DEVICE_FILES = ("/dev/nvidiactl", "/dev/dxg", "/dev/kfd", "/dev/dri/renderD128")


def accelerator_present(torch: Any) -> bool:
    """Whether this torch could use an accelerator of this machine."""
    if torch.backends.mps.is_built():
        return sys.platform == "darwin"
    built = torch.version.cuda or torch.version.hip or getattr(torch.version, "xpu", None)
    return bool(built) and any(os.path.exists(path) for path in _DEVICE_FILES)  # noqa: PTH110


class TransferCollector(HookingCollector):
    """Spans around calls that bring a tensor to another device; arg: its bytes."""

    name = "transfer"

    def __init__(self, force: bool = False) -> None:
        super().__init__()
        self._force = force

    def _install(self, recorder: Recorder) -> None:
        import torch

        if not (self._force or accelerator_present(torch)):
            return
        for method, target in (("to", _target_of_to), ("cuda", _cuda), ("cpu", _cpu)):
            wrapper = spanned(
                recorder,
                names.TRANSFER,
                getattr(torch.Tensor, method),
                compiling=torch.compiler.is_dynamo_compiling,
                arg=_bytes_moved(torch, target),
            )
            self._patches.put(torch.Tensor, method, wrapper)


def _bytes_moved(torch: Any, target: Callable[..., Any]) -> Callable[..., int | None]:
    """Bytes that the call will move, or None when the tensor is there already."""

    def bytes_moved(tensor: Any, /, *args: Any, **kwargs: Any) -> int | None:
        # What we ask must not be seen by the program's tensor subclasses and function modes.
        with torch._C.DisableTorchFunction():
            device = target(torch, *args, **kwargs)
            if device is None:
                return None
            here = tensor.device
            if device.type == here.type and (device.index is None or device.index == here.index):
                return None
            count = tensor.numel()
            # Symbolic while a program is traced: a number would pin the shape.
            return count * int(tensor.element_size()) if type(count) is int else 0

    return bytes_moved


def _target_of_to(
    torch: Any, first: Any = None, *_: Any, device: Any = None, tensor: Any = None, **__: Any
) -> Any:
    """`to(device)`, `to(device, dtype)`, `to(tensor)`, `to(dtype)`: None for the last."""
    if first is None:
        first = device if tensor is None else tensor
    if first is None or isinstance(first, torch.dtype):
        return None
    if isinstance(first, torch.Tensor):
        return first.device
    return _device(torch, first)


def _cuda(torch: Any, device: Any = None, *_: Any, **__: Any) -> Any:
    return _device(torch, "cuda" if device is None else device)


def _device(torch: Any, named: Any) -> Any:
    try:
        return torch.device(named)
    except (RuntimeError, TypeError):  # the call itself will say so, and better
        return None


def _cpu(torch: Any, *_: Any, **__: Any) -> Any:
    return torch.device("cpu")
