"""Arguments of a logged operator, made again from their description."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from stepscope.model.op_log import tensors

__all__ = ["Changed", "has_subnormal", "make", "moves_channels", "uses"]

MOST_ELEMENTS = 1 << 28
_SUBNORMAL = 1e-40


@dataclass(frozen=True, slots=True)
class Changed:
    """What is to be other than it was."""

    dtypes: Mapping[str, str] = field(default_factory=dict)
    channels_last: bool = False
    subnormal: bool = True  # False: there are none


def make(torch: Any, described: Any, changed: Changed) -> Any:
    """Raises ValueError for what is not a description."""
    if described is None or isinstance(described, (bool, int, str)):
        return described
    if isinstance(described, list):
        return [make(torch, one, changed) for one in described]
    if "shape" in described:
        return _tensor(torch, described, changed)
    if "float" in described:
        return float(described["float"])
    if "dtype" in described:
        return _dtype(torch, described["dtype"], changed)
    if "device" in described:
        return torch.device(described["device"])
    for kind, of in (("memory_format", torch.memory_format), ("layout", torch.layout)):
        found = getattr(torch, str(described.get(kind)), None)
        if isinstance(found, of):
            return found
    raise ValueError(f"not a description: {described!r}")


def _dtype(torch: Any, name: str, changed: Changed) -> Any:
    found = getattr(torch, changed.dtypes.get(name, name), None)
    if not isinstance(found, torch.dtype):
        raise ValueError(f"not a dtype: {name!r}")
    return found


def _tensor(torch: Any, described: Mapping[str, Any], changed: Changed) -> Any:
    dtype = _dtype(torch, described["dtype"], changed)
    shape, stride = [int(n) for n in described["shape"]], [int(n) for n in described["stride"]]
    room = 1 + sum((n - 1) * step for n, step in zip(shape, stride, strict=True) if n)
    if room > MOST_ELEMENTS or min([0, *shape, *stride]) < 0:
        raise ValueError("too large")
    made = torch.empty_strided(shape, stride, dtype=dtype, device=described["device"])
    if changed.channels_last and made.dim() == 4 and made.is_contiguous():
        made = made.to(memory_format=torch.channels_last)
    if dtype is torch.bool:
        return made.copy_(torch.rand(shape) < float(described.get("true", 0.0)))
    share = float(described.get("subnormal", 0.0)) if changed.subnormal else 0.0
    return _fill(torch, made, share)


def _fill(torch: Any, tensor: Any, subnormal: float) -> Any:
    """Values that suit most operators: positive; indices are 0."""
    if not tensor.is_floating_point():
        return tensor.zero_()
    tensor.uniform_(0.1, 1.1)
    if subnormal:
        tensor[torch.rand(tensor.shape) < subnormal] = _SUBNORMAL
    return tensor


def uses(described: Mapping[str, Any], dtype: str) -> bool:
    """Whether a tensor is of that dtype, or is to become so."""
    wanted = described.get("kwargs", {}).get("dtype")
    becomes = isinstance(wanted, dict) and wanted.get("dtype") == dtype
    return becomes or any(one.get("dtype") == dtype for one in tensors(described))


def has_subnormal(described: Any) -> bool:
    return any(one.get("subnormal") for one in tensors(described))


def moves_channels(described: Any) -> bool:
    """A copy of a tensor of four dimensions that lies in one layout, to the other."""
    return any(len(one["shape"]) == 4 and _is_permuted(one) for one in tensors(described))


def _is_permuted(tensor: Mapping[str, Any]) -> bool:
    """Its channels do not lie in the order of its dimensions, and all of it is there."""
    stride = [step for n, step in zip(tensor["shape"], tensor["stride"], strict=True) if n > 1]
    return stride != sorted(stride, reverse=True) and 0 not in stride
