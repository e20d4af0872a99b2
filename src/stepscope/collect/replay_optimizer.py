"""Optimizers of the program, made again for the same shapes: as they are, and fused."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

__all__ = ["optimizer_steps"]

MOST_ELEMENTS = 1 << 28
# Those of torch that update all parameters in one kernel, if told to.
_FUSED = ("SGD", "Adam", "AdamW", "Adagrad")

Step = Callable[[], Any]


def optimizer_steps(
    torch: Any, described: Sequence[Mapping[str, Any]]
) -> Iterator[tuple[Step, Step]]:
    """A step as it is and a step fused, of each optimizer that could be and is not."""
    for one in described:
        if one.get("class") in _FUSED and not one.get("fused"):
            kind = getattr(torch.optim, str(one["class"]))
            flags = {"foreach": one.get("foreach")}
            yield (
                _step(torch, kind, one["shapes"], flags),
                _step(torch, kind, one["shapes"], {"fused": True}),
            )


def _step(torch: Any, kind: Any, shapes: Sequence[Any], flags: Mapping[str, Any]) -> Step:
    parameters = []
    elements = 0
    for shape, dtype, count in shapes:
        for _ in range(count):
            parameter = torch.empty(shape, dtype=getattr(torch, dtype)).uniform_(0.1, 1.1)
            elements += parameter.numel()
            if elements > MOST_ELEMENTS:
                raise ValueError("too large")
            parameter.grad = torch.full_like(parameter, 1e-3)
            parameters.append(parameter)
    optimizer = kind(parameters, lr=1e-6, **flags)
    optimizer.step()  # makes its state
    step: Step = optimizer.step
    return step
