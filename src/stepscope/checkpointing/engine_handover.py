"""What a segment saves for backward: collected while it runs, and handed to torch later.

torch's recomputation stands in the same place: hooks that see each saved tensor, in order. So a
recomputation can run under hooks of ours, and torch be given the result in one go.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

__all__ = ["collect", "hand_over"]


def collect(run: Callable[[], Any]) -> list[Any]:
    """Run it; the tensors that it saves for backward, in order, without their graphs."""
    from torch.autograd.graph import saved_tensors_hooks

    found: list[Any] = []

    def pack(tensor: Any) -> Any:
        plain = tensor.detach() if tensor.requires_grad else tensor
        found.append(plain)
        return plain

    with saved_tensors_hooks(pack, _as_it_is):
        run()
    return found


def hand_over(tensors: Sequence[Any]) -> None:
    """To the hooks that are in place. torch's end the recomputation with an exception when they
    have all that they need: it passes. No operator runs here, because the modes of selective
    checkpoints count operators."""
    if tensors:
        _function().apply(_entry(), *tensors)


def _as_it_is(tensor: Any) -> Any:
    return tensor


@functools.cache
def _entry() -> Any:
    """An argument that needs a gradient: without one nothing is saved."""
    import torch

    return torch.empty(0, requires_grad=True)


@functools.cache
def _function() -> Any:
    from torch.autograd import Function

    class HandOver(Function):  # type: ignore[misc]  # torch is Any to mypy
        """Saves its arguments; there is no result, so it is never asked for a gradient."""

        @staticmethod
        def forward(ctx: Any, _entry: Any, *tensors: Any) -> None:
            ctx.save_for_backward(*tensors)

        @staticmethod
        def backward(ctx: Any, *_grads: Any) -> None:
            raise AssertionError("nothing depends on what was handed over")

    return HandOver
