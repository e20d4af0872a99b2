"""Optimizers that are no `torch.optim.Optimizer`: found among the variables of those who train.

A program that runs backward and has made no optimizer of torch's has another: an object with `step`
and `zero_grad`. It is looked for a few times, above the call of backward.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from types import CodeType, FrameType, FunctionType
from typing import Any, Final

__all__ = ["OtherOptimizers"]

LOOKS: Final = frozenset((1, 2, 4, 8, 16))  # backward passes after which to look
MOST_VALUES: Final = 10_000


class OtherOptimizers:
    """`after_backward` after each outermost backward pass."""

    def __init__(
        self,
        has_optimizers: Callable[[], bool],
        found: Callable[[type], None],
        failed: Callable[[str, BaseException], None],
    ) -> None:
        """has_optimizers: of torch's. `found` is given classes that define `step`, each once."""
        self._has_optimizers, self._found, self._failed = has_optimizers, found, failed
        self._known: set[type] = set()
        self._passes = 0

    def __reduce__(self) -> tuple[type[OtherOptimizers], tuple[Any, ...]]:
        """Hooks that are pickled by value bring it along: nothing is looked for elsewhere."""
        return OtherOptimizers, (_yes, _ignore, _ignore)

    def after_backward(self) -> None:
        """Never raises."""
        if self._passes > max(LOOKS):
            return
        self._passes += 1
        if self._passes not in LOOKS or self._has_optimizers():
            return
        try:
            frame = sys._getframe(1)
            running = _running(frame)
            for owner in _owners(_variables(frame)):
                # A `step` that runs backward itself is a step of training, not of an optimizer.
                if owner not in self._known and vars(owner)["step"].__code__ not in running:
                    self._known.add(owner)
                    self._found(owner)
        except Exception as error:  # noqa: BLE001 - the border with the user's program
            self._failed("looking for an optimizer", error)


def _yes() -> bool:
    return True


def _ignore(*_: Any) -> None:
    pass


def _running(frame: FrameType | None) -> set[CodeType]:
    found = set()
    while frame is not None:
        found.add(frame.f_code)
        frame = frame.f_back
    return found


def _variables(frame: FrameType | None) -> Iterator[Any]:
    """Local and global variables of the callers, and the attributes of their objects."""
    seen: set[int] = set()
    while frame is not None and len(seen) < MOST_VALUES:
        for namespace in (frame.f_locals, frame.f_globals):
            if id(namespace) in seen:
                continue
            seen.add(id(namespace))
            for value in list(namespace.values()):
                if id(value) not in seen:
                    seen.add(id(value))
                    yield value
                    yield from _parts(value)
        frame = frame.f_back


def _parts(value: Any) -> Iterable[Any]:
    if type(value) in (list, tuple):
        return list(value[:16])
    if isinstance(value, type) or type(value).__module__ == "builtins":
        return ()
    try:
        attributes = object.__getattribute__(value, "__dict__")
    except Exception:  # noqa: BLE001 - a proxy, or an object with slots
        return ()
    return list(attributes.values()) if type(attributes) is dict else ()


def _owners(values: Iterable[Any]) -> Iterator[type]:
    """The classes that define the `step` of what looks like an optimizer. Nothing of the program's
    is run to find out."""
    torch: Any = sys.modules["torch"]
    theirs = (torch.optim.Optimizer, torch.nn.Module, type)
    for value in values:
        kind = type(value)
        if issubclass(kind, theirs):
            continue
        defined = {
            name: owner
            for owner in reversed(kind.__mro__)
            for name in ("step", "zero_grad")
            if type(vars(owner).get(name)) is FunctionType
        }
        if len(defined) == 2:
            yield defined["step"]
