"""The one way in which collectors stand in front of a function of torch.

A wrapper never changes what the call does: arguments, result and exception pass through, and an
error of ours goes to `recorder.failed`. `Patches` remembers what was replaced and puts it back.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from types import CodeType
from typing import Any

from stepscope.collect.imports import when_imported
from stepscope.record.recorder import Recorder

__all__ = ["Patches", "keep_from_compiling", "like", "never", "nothing", "placed", "spanned"]

Function = Callable[..., Any]
_MISSING = object()
_NEVER_COMPILED = ("collect", "model", "profilers", "record", "session", "tune")


class Patches:
    """What a collector replaced, in order."""

    def __init__(self) -> None:
        self._done: list[tuple[Any, str, Any, Any]] = []

    def replace(self, owner: Any, attribute: str, make: Callable[[Function], Function]) -> None:
        """Put `make(original)` in the place of `owner.attribute`, unless there is none."""
        found = getattr(owner, attribute, None)
        if found is not None:
            self.put(owner, attribute, make(found))

    def put(self, owner: Any, attribute: str, replacement: Any) -> None:
        """Put `replacement` in the place of `owner.attribute`."""
        # Inherited attributes are put back by taking ours away; static methods as they stood.
        stored = vars(owner).get(attribute, _MISSING)
        if isinstance(stored, staticmethod):
            replacement = staticmethod(replacement)
        setattr(owner, attribute, replacement)
        self._done.append((owner, attribute, stored, replacement))

    def undo(self) -> None:
        """Put everything back, except where somebody has wrapped ours in the meantime."""
        for owner, attribute, stored, replacement in reversed(self._done):
            if vars(owner).get(attribute, _MISSING) is not replacement:
                continue
            if stored is _MISSING:
                delattr(owner, attribute)
            else:
                setattr(owner, attribute, stored)
        self._done.clear()


def keep_from_compiling(failed: Callable[[str, BaseException], None]) -> None:
    """What our wrappers call is run under the program's torch.compile: dynamo is to leave it be.
    Not so the room of checkpointing: what a CheckpointManager puts into a model is compiled."""

    def leave_be(rules: Any) -> None:
        for room in _NEVER_COMPILED:
            rules.add(f"stepscope.{room}")

    when_imported("torch._dynamo.trace_rules", leave_be, failed)


def never() -> bool:
    """Stands in for `torch.compiler.is_dynamo_compiling` where there is no torch."""
    return False


def nothing() -> None:
    """The first call needs no preparation."""


def like(original: Function, wrapper: Any) -> Function:
    """`wrapper` with the name and signature of `original`, where torch._dynamo passes by."""
    for name in ("__module__", "__name__", "__qualname__", "__doc__"):
        value = getattr(original, name, None)
        if value is not None:
            setattr(wrapper, name, value)
    wrapper.__dict__.update(getattr(original, "__dict__", {}))
    wrapper.__wrapped__ = original
    return placed(wrapper)


def placed(function: Any) -> Function:
    """`function` where torch._dynamo passes by. Functions of one `def` share their code, so that a
    stack with them in it is the same stack each time."""
    code, place = function.__code__, _place()
    if (code, place) not in _placed:
        _placed[code, place] = code.replace(co_filename=place)
    function.__code__ = _placed[code, place]
    return function  # type: ignore[no-any-return]


_placed: dict[tuple[CodeType, str], CodeType] = {}


def _place() -> str:
    """A file name that makes dynamo find the same graphs with and without us.

    Dynamo decides by a frame's file. Frames of torch's own modules it never compiles by
    themselves, but inlines where compiled code calls them: as it does with the original of
    `Module.__call__`. Our files it would take for the user's, and compile the wrappers.
    """
    torch_nn = sys.modules.get("torch.nn")
    if torch_nn is None:
        return __file__
    return f"{torch_nn.__path__[0]}{os.sep}modules{os.sep}stepscope{os.sep}chain.py"


def spanned(
    recorder: Recorder,
    name: str,
    original: Function,
    *,
    compiling: Callable[[], bool] = never,
    arg: Callable[..., int | None] | None = None,
    outcome: Callable[..., int | None] | None = None,
    first: Callable[[], None] = nothing,
    done: Callable[[bool], None] | None = None,
) -> Function:
    """`original` within a span.

    `arg(*args)` gives its number, or None for a call that is not of interest;
    `outcome(result, args, kwargs)` one that is known only after the call (result: None when it
    raised). `first()` is called before the first of them, and `done(failed)` after each.
    """
    begin, end, failed = recorder.begin, recorder.end, recorder.failed
    number = recorder.intern(name)
    waking: Callable[[], None] | None = first

    def wrapper(*args: Any, **kwargs: Any) -> Any:
        nonlocal waking
        if compiling():
            return original(*args, **kwargs)
        token = -1
        try:
            if waking is not None:
                wake, waking = waking, None
                wake()
            about = 0 if arg is None else arg(*args, **kwargs)
            if about is not None:
                token = begin(number, about)
        except Exception as error:  # noqa: BLE001 - the border with the user's program
            failed(name, error)
        wrong, result = 1, None
        try:
            result = original(*args, **kwargs)
            wrong = 0
            return result
        finally:
            told = None
            try:
                if outcome is not None:
                    told = outcome(result, args, kwargs)
            except Exception as error:  # noqa: BLE001
                failed(name, error)
            try:
                end(token, wrong, told)
                if done is not None:
                    done(bool(wrong))
            except Exception as error:  # noqa: BLE001
                failed(name, error)

    return like(original, wrapper)
