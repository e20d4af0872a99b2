"""Whether two results are the same: to the bit, or up to what rounding leaves."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

__all__ = ["TO_THE_BIT", "alike"]

TO_THE_BIT = "to the bit"
# Of a value, and beside it: what sums in another order come to (those of torch.testing).
_TOLERANCES = {
    "float16": (1e-3, 1e-5),
    "bfloat16": (1.6e-2, 1e-5),
    "float32": (1.3e-6, 1e-5),
    "float64": (1e-7, 1e-7),
    "complex64": (1.3e-6, 1e-5),
    "complex128": (1e-7, 1e-7),
}


def alike(one: Any, other: Any) -> str:
    """How far they are the same: `TO_THE_BIT`, "up to the rounding of float32"; "": they are not.

    >>> alike([1, "a"], [1, "a"]), alike({"a": 1}, {"a": 2}), alike((1,), [1])
    ('to the bit', '', '')
    """
    if type(one) is not type(other):
        return ""
    if hasattr(one, "detach"):
        return _tensors(one, other)
    numpy: Any = sys.modules.get("numpy")
    if numpy is not None and isinstance(one, numpy.ndarray | numpy.generic):
        return _arrays(numpy, one, other)
    if isinstance(one, dict):
        same = list(one) == list(other)
        return _weakest(alike(one[key], other[key]) for key in one) if same else ""
    if isinstance(one, list | tuple):
        same = len(one) == len(other)
        return _weakest(alike(a, b) for a, b in zip(one, other, strict=True)) if same else ""
    try:
        return TO_THE_BIT if bool(one == other) else ""
    except Exception:  # noqa: BLE001 - a class of the user's, which says what == is
        return ""


def _weakest(parts: Iterable[str]) -> str:
    worst = TO_THE_BIT
    for part in parts:
        if not part:
            return ""
        worst = part if part != TO_THE_BIT else worst
    return worst


def _tensors(one: Any, other: Any) -> str:
    import torch

    ours = (one.dtype, one.shape, one.device, one.layout, one.requires_grad)
    if ours != (other.dtype, other.shape, other.device, other.layout, other.requires_grad):
        return ""
    one, other = one.detach(), other.detach()
    if torch.equal(one, other):
        return TO_THE_BIT
    kind = str(one.dtype).removeprefix("torch.")
    if kind not in _TOLERANCES:
        return ""
    relative, absolute = _TOLERANCES[kind]
    near = torch.allclose(one, other, rtol=relative, atol=absolute, equal_nan=True)
    return f"up to the rounding of {kind}" if near else ""


def _arrays(numpy: Any, one: Any, other: Any) -> str:
    if one.dtype != other.dtype or one.shape != other.shape:
        return ""
    if numpy.array_equal(one, other):
        return TO_THE_BIT
    if str(one.dtype) not in _TOLERANCES:
        return ""
    relative, absolute = _TOLERANCES[str(one.dtype)]
    near = numpy.allclose(one, other, rtol=relative, atol=absolute, equal_nan=True)
    return f"up to the rounding of {one.dtype}" if near else ""
