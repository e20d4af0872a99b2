"""Who refers to what a line allocated and nobody gave back: asked of Python while it runs.

First garbage is collected: what that frees was held by cycles, whose classes are told. Of the rest,
one block of each line is looked up among all tensors, and who refers to it is followed upwards.
"""

from __future__ import annotations

import gc
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from types import FrameType, ModuleType
from typing import TYPE_CHECKING, Any, Final

from stepscope.collect.gc import unseen_collections
from stepscope.collect.labels import storage_address
from stepscope.model import names
from stepscope.model.own_code import is_ours
from stepscope.record.recorder import Recorder

if TYPE_CHECKING:
    from stepscope.record.protocol import TensorHeap

__all__ = ["Holders", "chain_of"]

LEVELS: Final = 5  # of who refers to whom
MOST_GARBAGE: Final = 200_000  # objects that are looked through
MOST_GRAPHS: Final = 200  # that are compared
MOST_NODES: Final = 2000  # of one, that are counted
_PLAIN = (list, dict, tuple, set, frozenset)
_DULL = ("builtins", "torch")  # classes of these modules say nothing about whose cycle it is


class Holders:
    """Costs some tenths of a second a look: called when a line is suspected, and seldom."""

    def __init__(self, recorder: Recorder, heap: TensorHeap) -> None:
        self._recorder, self._heap = recorder, heap
        self._garbage = recorder.intern(names.MEMORY_GARBAGE)
        self._holder = recorder.intern(names.MEMORY_HOLDER)
        self._look = recorder.intern(names.OWN_LOOK)

    def examine(self, stacks: Sequence[int], step: int) -> None:
        """Tell of these lines what a collection frees, and who holds the rest."""
        token = self._recorder.begin(self._look)
        try:
            self._examine(stacks, step)
        finally:
            self._recorder.end(token)

    def _examine(self, stacks: Sequence[int], step: int) -> None:
        before = self._held(stacks)
        with unseen_collections():
            classes = self._collect()
        after = self._held(stacks)
        for stack in stacks:
            freed_bytes = before[stack] - after[stack]
            found: dict[str, Any] = {"before": before[stack], "freed": freed_bytes, "step": step}
            if freed_bytes > 0:
                found["classes"] = classes.get(stack) or classes.get(0) or []
            self._mark(self._garbage, stack, found)
        left = [stack for stack in stacks if after[stack] > before[stack] // 2]
        if left:
            self._tell_holders(left, step)

    def _held(self, stacks: Iterable[int]) -> dict[int, int]:
        found = dict.fromkeys(stacks, 0)
        for stack, _, held_bytes, _ in self._heap.held():
            if stack in found:
                found[stack] += held_bytes
        return found

    def _mark(self, name: int, stack: int, found: dict[str, Any]) -> None:
        self._recorder.mark(name, stack, self._recorder.intern(json.dumps(found)))

    # ---- garbage ----

    def _collect(self) -> dict[int, list[str]]:
        """Have Python collect; the classes in cycles that held tensors, by the tensor's stack (0:
        all of them together)."""
        flags, kept = gc.get_debug(), len(gc.garbage)
        try:
            gc.set_debug(gc.DEBUG_SAVEALL)  # so that it can be seen before it is gone
            gc.collect()
            found = self._classes(gc.garbage[kept : kept + MOST_GARBAGE])
        finally:
            gc.set_debug(flags)
            del gc.garbage[kept:]
        gc.collect()
        return found

    def _classes(self, garbage: Sequence[Any]) -> dict[int, list[str]]:
        torch: Any = sys.modules["torch"]
        by_stack: dict[int, list[str]] = {}
        everything = _names_of(garbage)
        for tensor in garbage:
            if _is_a(tensor, torch.Tensor):
                block = self._heap.find(storage_address(tensor))
                if block is not None and block[2] not in by_stack:
                    by_stack[block[2]] = _names_of(_around(tensor, garbage)) or everything
        by_stack[0] = everything
        return by_stack

    # ---- holders ----

    def _tell_holders(self, stacks: Sequence[int], step: int) -> None:
        oldest = {stack: self._oldest(stack) for stack in stacks}
        tensors = list(_tensors())
        by_address = {storage_address(tensor): tensor for tensor in tensors}
        ours = [tensors, by_address, oldest]
        for stack, addresses in oldest.items():
            tensor = next((by_address[one] for one in addresses if one in by_address), None)
            chain = chain_of(tensor, ours) if tensor is not None else []
            if not chain:  # nothing in Python: most likely the graph of a tensor that is kept
                root = _with_most_graph(tensors)
                found = chain_of(root, ours) if root is not None else []
                chain = [names.HELD_BY_GRAPH, *found] if found else []
            if chain:
                self._mark(self._holder, stack, {"held_by": chain, "step": step})

    def _oldest(self, stack: int) -> list[int]:
        blocks = sorted(self._heap.blocks(stack), key=lambda block: block[2])
        return [address for address, _, _ in blocks]


def _with_most_graph(tensors: Iterable[Any]) -> Any:
    """The tensor behind which most of a graph lies; None: none has one."""
    with_graph = [tensor for tensor in tensors if tensor.grad_fn is not None][:MOST_GRAPHS]
    return max(with_graph, key=_graph_size, default=None)


def _graph_size(tensor: Any) -> int:
    seen: set[Any] = set()
    todo = [tensor.grad_fn]
    while todo and len(seen) < MOST_NODES:
        node = todo.pop()
        if node not in seen:
            seen.add(node)
            todo += [one for one, _ in node.next_functions if one is not None]
    return len(seen)


def chain_of(thing: Any, ours: Sequence[Any]) -> list[str]:
    """Who refers to it, the nearest first, in words; [] if nobody can be found. `ours`: containers
    of our own, which do not count."""
    chain: list[str] = []
    passed = {id(one) for one in (*ours, chain)}
    for _ in range(LEVELS):
        passed.add(id(thing))
        local = _local_name(thing)
        if local:
            return [*chain, local]
        found = _referrer(thing, passed)
        if found is None:
            return chain
        words = _words(found, thing)
        if words:
            chain.append(words)
        owner = _owner_of(found) if _is_a(found, dict) else None
        if owner is not None:
            if _is_a(owner, ModuleType):
                return chain
            found = owner
        thing = found
    return chain


def _referrer(thing: Any, passed: set[int]) -> Any:
    """Containers and objects, not the frames and lists that looking makes."""
    for one in gc.get_referrers(thing):
        if id(one) in passed or _is_a(one, FrameType) or type(one).__name__ == "cell":
            continue
        if type(one).__module__ == __name__:
            continue
        return one
    return None


def _words(holder: Any, thing: Any) -> str:
    if _is_a(holder, dict):
        key = next((repr(key) for key, value in holder.items() if value is thing), "?")[:60]
        owner = _owner_of(holder)
        if _is_a(owner, ModuleType):
            return f"global variable {key} of {owner.__name__}"
        if owner is not None:
            return f"attribute {key} of a {_class_name(owner)}"
        return f"key {key} of a dict of {len(holder)}"
    if _is_a(holder, (list, tuple)):
        place = next((at for at, value in enumerate(holder) if value is thing), -1)
        return f"item {place} of a {type(holder).__name__} of {len(holder)}"
    name = _attribute(holder, thing)
    if name:
        return f"attribute {name!r} of a {_class_name(holder)}"
    return f"a {_class_name(holder)}"


def _attribute(holder: Any, thing: Any) -> str:
    """Under which name it holds it. Since Python 3.11 an object may have no dict of its own."""
    namespace = _namespace(holder)
    if not _is_a(namespace, dict):
        return ""
    return next((str(name) for name, value in list(namespace.items()) if value is thing), "")


def _namespace(thing: Any) -> Any:
    """Its variables; None: it has none, or will not say. Past what the program may have put in
    front of them."""
    try:
        return object.__getattribute__(thing, "__dict__")
    except Exception:  # noqa: BLE001 - anything may be among what refers to a tensor
        return None


def _is_a(thing: Any, kind: Any) -> bool:
    """isinstance asks the thing itself, and that may be a proxy of something that is gone."""
    return issubclass(type(thing), kind)


def _owner_of(namespace: dict[Any, Any]) -> Any:
    """The module or object whose variables these are; None: a dict of its own."""
    name = namespace.get("__name__")
    module = sys.modules.get(name) if isinstance(name, str) else None
    if module is not None and vars(module) is namespace:
        return module
    for one in gc.get_referrers(namespace):
        if _namespace(one) is namespace:
            return one
    return None


def _local_name(thing: Any) -> str:
    """The variable of a running function that it is; "": none."""
    for frame in _frames():
        if frame.f_code.co_name == "<module>":
            continue
        for name, value in frame.f_locals.items():
            if value is thing:
                return f"local variable {name!r} of {frame.f_code.co_name}()"
    return ""


def _frames() -> Iterator[FrameType]:
    """Of the program: what stands above us in this thread, and all of the others."""
    this = sys._getframe()
    for top in sys._current_frames().values():
        frame: FrameType | None = top
        while frame is not None:
            code = frame.f_code
            if frame is not this and not is_ours(code.co_filename, code.co_qualname):
                yield frame
            frame = frame.f_back


def _tensors() -> Iterator[Any]:
    """Those that Python knows, of torch's own classes: others may run the program's code."""
    torch: Any = sys.modules["torch"]
    kinds = (torch.Tensor, torch.nn.Parameter)
    return (one for one in gc.get_objects() if type(one) in kinds)


def _around(tensor: Any, garbage: Sequence[Any]) -> list[Any]:
    """What in the garbage leads to this tensor, two steps up."""
    known = {id(one) for one in garbage}
    found: list[Any] = []
    todo = [tensor]
    for _ in range(2):
        todo = [one for thing in todo for one in gc.get_referrers(thing) if id(one) in known]
        found += todo
    return found


def _names_of(things: Iterable[Any]) -> list[str]:
    """Classes by how often they occur, those of Python and torch left out unless there are no
    others."""
    counts: dict[str, int] = {}
    dull: dict[str, int] = {}
    for thing in things:
        module = type(thing).__module__.partition(".")[0]
        into = dull if module in _DULL else counts
        into[_class_name(thing)] = into.get(_class_name(thing), 0) + 1
    counts = counts or {name: count for name, count in dull.items() if name not in _BORING}
    return sorted(counts, key=lambda name: -counts[name])[:5]


_BORING = {kind.__name__ for kind in _PLAIN} | {"cell", "function", "Tensor", "method"}


def _class_name(thing: Any) -> str:
    kind = type(thing)
    module = kind.__module__
    return (
        kind.__qualname__ if module in ("builtins", "__main__") else f"{module}.{kind.__qualname__}"
    )
