"""The autograd nodes behind what a module was given and what it returned."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

__all__ = ["can_mark", "nodes_of", "tensors_of"]

NODES = 8  # of one call; more than that is a list of many tensors, whose first ones do
DEPTH = 3


def tensors_of(values: Iterable[Any], plain: type, depth: int = DEPTH) -> Iterator[Any]:
    """Tensors in arguments or results. Those of subclasses are left alone: asking one anything may
    run the program's own code."""
    for value in values:
        kind = type(value)
        if kind is plain:
            yield value
        elif kind is tuple or kind is list:
            if depth:
                yield from tensors_of(value, plain, depth - 1)
        elif isinstance(value, dict) and depth:  # and the outputs of transformers' models
            yield from tensors_of(value.values(), plain, depth - 1)
        elif isinstance(value, tuple) and depth:  # named tuples
            yield from tensors_of(value, plain, depth - 1)


def nodes_of(values: Iterable[Any], plain: type) -> list[Any]:
    """The nodes that made these tensors, each once."""
    found: list[Any] = []
    for tensor in tensors_of(values, plain):
        node = tensor.grad_fn
        if node is not None and node not in found:
            found.append(node)
            if len(found) == NODES:
                break
    return found


def can_mark(torch: Any) -> Callable[[], bool]:
    """Whether hooks on nodes are ours to put now: transforms of functions (torch.func) and a
    backward that is compiled would see them."""
    peek = torch._C._functorch.peek_interpreter_stack

    def free() -> bool:
        compiled = sys.modules.get("torch._dynamo.compiled_autograd")
        if compiled is not None and getattr(compiled, "compiled_autograd_enabled", False):
            return False
        return peek() is None

    return free
