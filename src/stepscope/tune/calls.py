"""Stands around the calls of chosen modules, without a trace in the modules themselves.

Hooks would be saved and copied along with a module; what stands at its class is not.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from typing import Any

from stepscope.collect.chain import Patches, hiding
from stepscope.model.own_code import WRAPPER

__all__ = ["Around", "Call", "Guarded", "Wrap", "caller", "has_parameters", "with_tensors"]

Call = Callable[..., Any]
Wrap = Callable[[Call, tuple[Any, ...], dict[str, Any]], Any]


class Around:
    """Calls of modules that were added go through `wrap(call, args, kwargs)`."""

    def __init__(self, patches: Patches) -> None:
        self._patches = patches
        self._wraps: dict[int, tuple[Any, Wrap]] = {}  # with the module: its id stays its own
        self._classes: set[type] = set()
        self._begun: dict[int, Any] = {}  # id of a module → the `forward` that it has of its own

    def add(self, module: Any, wrap: Wrap) -> None:
        """`module` is about to be called: from that call on."""
        self._wraps[id(module)] = (module, wrap)
        kind = type(module)
        if kind not in self._classes:
            self._classes.add(kind)
            self._patches.replace(kind, "__call__", self._in_front_of)
        self._wrap_the_call_that_has_begun(module)

    def remove(self, module: Any) -> None:
        self._wraps.pop(id(module), None)

    def clear(self) -> None:
        for module, _ in self._wraps.values():
            self._unwrap(module)
        self._wraps.clear()

    def _in_front_of(self, original: Call) -> Call:
        wraps = self._wraps

        def __call__(module: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N807
            found = wraps.get(id(module))
            if found is None:
                return original(module, *args, **kwargs)
            if self._begun:
                self._unwrap(module)

            def call(*args: Any, **kwargs: Any) -> Any:
                return original(module, *args, **kwargs)

            return found[1](call, args, kwargs)

        return hiding(original, __call__)

    def _wrap_the_call_that_has_begun(self, module: Any) -> None:
        """It is past its class's `__call__`: its `forward` is wrapped, for this one time."""

        def forward(*args: Any, **kwargs: Any) -> Any:
            self._unwrap(module)
            found = self._wraps.get(id(module))
            if found is None:
                return module.forward(*args, **kwargs)
            return found[1](module.forward, args, kwargs)

        self._begun[id(module)] = vars(module).get("forward")
        vars(module)["forward"] = forward

    def _unwrap(self, module: Any) -> None:
        if id(module) not in self._begun:
            return
        theirs = self._begun.pop(id(module))
        if theirs is None:
            vars(module).pop("forward", None)
        else:
            vars(module)["forward"] = theirs


class _Before:
    """What a call may change of a program, to run it once more from there: random numbers and the
    buffers of a module (running statistics)."""

    def __init__(self, module: Any) -> None:
        import torch

        self._torch, self._numbers, self._python = torch, torch.get_rng_state(), random.getstate()
        self._device = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else None
        self._buffers = [(buffer, buffer.detach().clone()) for buffer in module.buffers()]

    def restore(self) -> None:
        self._torch.set_rng_state(self._numbers)
        random.setstate(self._python)
        if self._device is not None:
            self._torch.cuda.set_rng_state_all(self._device)
        with self._torch.no_grad():
            for buffer, saved in self._buffers:
                buffer.copy_(saved)


class Guarded:
    """Calls of a module with a change that may fail: then it is taken back, and the call is made
    once more without it. A program's own error comes out of that second call."""

    def __init__(self, module: Any, give_up: Callable[[BaseException], None]) -> None:
        """give_up(error): takes the change back and tells of it."""
        self._module, self._give_up = module, give_up
        self._known: set[bool] = set()  # training, evaluation: the ways that went well once

    def run(self, changed: Callable[[], Any], plain: Callable[[], Any]) -> Any:
        way = bool(self._module.training)
        before = None if way in self._known else _Before(self._module)
        try:
            result = changed()
        except Exception as error:  # noqa: BLE001 - whoever's it is, the plain call will tell
            self._give_up(error)
        else:
            self._known.add(way)
            return result
        if before is not None:
            before.restore()
        return plain()


def caller(depth: int = 2) -> str:
    """The name of the module that called a wrapper; other wrappers on the way are passed over."""
    frame = sys._getframe(depth)
    while frame.f_code.co_qualname == WRAPPER and frame.f_back is not None:
        frame = frame.f_back
    return str(frame.f_globals.get("__name__", ""))


def has_parameters(module: Any) -> bool:
    """A loss, for instance, has none."""
    return any(True for _ in module.parameters())


def with_tensors(value: Any, change: Callable[[Any], Any], kind: type) -> Any:
    """`value` with every tensor (`kind`) in lists, tuples and dictionaries put through `change`;
    containers without a change stay the very same ones."""
    if isinstance(value, kind):
        return change(value)
    if isinstance(value, dict) and type(value) is dict:
        new = {key: with_tensors(one, change, kind) for key, one in value.items()}
        return new if any(new[key] is not value[key] for key in new) else value
    if type(value) in (list, tuple) or (isinstance(value, tuple) and hasattr(value, "_fields")):
        parts = [with_tensors(one, change, kind) for one in value]
        if all(new is old for new, old in zip(parts, value, strict=True)):
            return value
        if hasattr(value, "_fields"):
            return type(value)(*parts)
        return type(value)(parts)
    return value
