"""How close two batches are: to the bit, or up to what rounding makes of another order of sums."""

from __future__ import annotations

from typing import Any

from stepscope.collect.digest import digest

__all__ = ["BITS", "ROUNDING", "how_close"]

BITS, ROUNDING = "to the bit", "up to rounding"
_STEPS = 16  # of the dtype's precision, relative to the largest value


def how_close(made: Any, wanted: Any) -> str | None:
    """BITS or ROUNDING; None: they differ by more, or are something else."""
    if digest(made) == digest(wanted) is not None and _strides(made) == _strides(wanted):
        return BITS
    return ROUNDING if _is_close(made, wanted) else None


def _strides(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_strides(one) for one in value]
    if isinstance(value, dict):
        return [_strides(one) for one in value.values()]
    return value.stride() if hasattr(value, "stride") else None


def _is_close(made: Any, wanted: Any) -> bool:
    import torch

    if type(made) is not type(wanted):
        return False
    if isinstance(made, (list, tuple)):
        pairs = zip(made, wanted, strict=False)
        return len(made) == len(wanted) and all(_is_close(*pair) for pair in pairs)
    if isinstance(made, dict):
        return [*made] == [*wanted] and all(_is_close(made[key], wanted[key]) for key in made)
    if not isinstance(made, torch.Tensor):
        return bool(made == wanted)
    return _is_close_tensor(made, wanted)


def _is_close_tensor(made: Any, wanted: Any) -> bool:
    import torch

    same = made.dtype == wanted.dtype and made.shape == wanted.shape
    if not same or made.stride() != wanted.stride():
        return False
    if not made.is_floating_point() or not made.numel():
        return bool(torch.equal(made, wanted))
    largest = float(wanted.nan_to_num().abs().max())
    room = _STEPS * torch.finfo(made.dtype).eps * largest
    return bool(torch.allclose(made, wanted, rtol=0.0, atol=room, equal_nan=True))
