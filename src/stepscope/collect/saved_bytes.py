"""What a module call keeps for backward, read from the autograd nodes that it made.

Nodes name what they saved. Where the program keeps tensors its own way (hooks on saved tensors, as
activation checkpointing has them), asking would run its code: there nothing is read.
"""

from __future__ import annotations

from typing import Any

from stepscope.collect.denormals import nobody_watches
from stepscope.collect.graph_nodes import nodes_of, tensors_of

__all__ = ["SavedBytes"]

MOST_NODES = 64  # of one call
MOST_NODES_OF_BLOCK = 4000
_PREFIX = "_raw_saved_"


class SavedBytes:
    """Of one step: a tensor that several calls keep counts for the first of them."""

    def __init__(self, torch: Any) -> None:
        self._torch, self._tensor = torch, torch.Tensor
        self._hooks = torch._C._autograd._top_saved_tensors_default_hooks
        self._names: dict[type, tuple[str, ...]] = {}  # of what a kind of node saves
        self._seen: set[int] = set()

    def of_call(self, module: Any, args: tuple[Any, ...], result: Any) -> int | None:
        """Bytes; None: the program keeps tensors in a way of its own, or would see us ask."""
        if self._hooks(True) is not None or not nobody_watches(self._torch):
            return None
        for parameter in (*module._parameters.values(), *module._buffers.values()):
            if parameter is not None:
                self._seen.add(_storage(parameter))
        return sum(self._of_node(node) for node in self._between(args, result, MOST_NODES))

    def of_block(self, module: Any, args: tuple[Any, ...], result: Any) -> int | None:
        """What not keeping it saves, of a call with modules inside it: without what is kept anyway
        (result, parameters, buffers) and less its arguments. `module`: None where the function is
        none."""
        if self._hooks(True) is not None or not nobody_watches(self._torch):
            return None
        nodes = self._between(args, result, MOST_NODES_OF_BLOCK)
        if len(nodes) == MOST_NODES_OF_BLOCK:
            return None
        kept = [node.variable for node in nodes if hasattr(node, "variable")]
        kept += [] if module is None else module.buffers()
        kept += tensors_of((result,), self._tensor)
        # Activations that it was given: nothing is saved where it would have kept them itself, and
        # less than nothing where they are kept only for it.
        given = {_storage(one): one for one in tensors_of(args, self._tensor) if one.requires_grad}
        given.pop(0, None)
        self._seen.update({_storage(tensor) for tensor in kept} - set(given))
        saved = sum(self._of_node(node) for node in nodes)
        return max(0, saved - sum(int(one.untyped_storage().nbytes()) for one in given.values()))

    def _between(self, args: tuple[Any, ...], result: Any, most: int) -> list[Any]:
        """The nodes that lead from what was given to the result."""
        todo = nodes_of((result,), self._tensor)
        ends = set(nodes_of(args, self._tensor))
        done: dict[Any, None] = {}
        while todo and len(done) < most:
            node = todo.pop()
            if node not in done and node not in ends:
                done[node] = None
                todo += [one for one, _ in node.next_functions if one is not None]
        return list(done)

    def _of_node(self, node: Any) -> int:
        kind = type(node)
        names = self._names.get(kind)
        if names is None:
            raw = [name for name in dir(kind) if name.startswith(_PREFIX)]
            names = self._names[kind] = tuple(name.replace("_raw", "", 1) for name in raw)
        kept = 0
        for name in names:
            # A function that the program wrote has "saved_tensors", of one name for all.
            value = getattr(node, name if hasattr(node, name) else name[1:], None)
            for tensor in value if isinstance(value, (list, tuple)) else (value,):
                if type(tensor) is self._tensor and tensor.device.type != "meta":
                    kept += self._once(tensor)
        return kept

    def _once(self, tensor: Any) -> int:
        where = _storage(tensor)
        if not where or where in self._seen:
            return 0
        self._seen.add(where)
        return int(tensor.untyped_storage().nbytes())


def _storage(tensor: Any) -> int:
    """Its address; 0: it has none of its own (sparse tensors, DTensor and other wrappers)."""
    try:
        return int(tensor.untyped_storage().data_ptr())
    except (NotImplementedError, RuntimeError):
        return 0
