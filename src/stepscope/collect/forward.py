"""Outermost module calls → `forward` spans.

`torch.nn.Module.__call__` is replaced by a plain function: a compiled model takes the same short
cut through it as through the original (torch._dynamo compares functions, see `_tell_dynamo`).
"""

from __future__ import annotations

import opcode
import sys
from collections.abc import Callable
from typing import Any

from stepscope.collect.chain import Position, like, nothing
from stepscope.collect.hooking import HookingCollector
from stepscope.collect.watch import UNWATCHED, Watch
from stepscope.model import names
from stepscope.model.own_code import hide_own_frames
from stepscope.record.recorder import Recorder

__all__ = ["ForwardCollector", "forward_call"]


class ForwardCollector(HookingCollector):
    """A span for each module call that is not inside another; nested calls only look."""

    name = "forward"

    def __init__(self, first: Callable[[], None] = nothing, watch: Watch = UNWATCHED) -> None:
        super().__init__(first)
        self._watch = watch

    def _install(self, recorder: Recorder) -> None:
        from torch.nn import Module

        original = Module.__call__
        wrapper = forward_call(recorder, original, self._first, self._watch)
        self._patches.put(Module, "__call__", wrapper)
        _tell_dynamo(original, wrapper)

    def _uninstall(self) -> None:
        from torch.nn import Module

        wrapper = Module.__call__
        super()._uninstall()
        _tell_dynamo(wrapper, Module.__call__)


def forward_call(  # noqa: C901 - the hottest hook of all: calls would double its cost
    recorder: Recorder,
    original: Callable[..., Any],
    first: Callable[[], None] = nothing,
    watch: Watch = UNWATCHED,
) -> Callable[..., Any]:
    """The function that takes the place of `Module.__call__`.

    Every module call of the program passes here, so nested ones leave at the first line.
    """
    import torch
    from torch.utils.data._utils import worker

    begin, end, is_open, failed = recorder.begin, recorder.end, recorder.is_open, recorder.failed
    forward = recorder.intern(names.FORWARD)
    loading = recorder.intern(names.INPUT_NEXT)
    compiling = torch.compiler.is_dynamo_compiling
    with_gradients = torch.is_grad_enabled
    waking: Callable[[], None] | None = first
    direct = _is_as_known(original)

    def __call__(self: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: C901, N807
        nonlocal waking
        token, call = -1, None
        try:
            # Dynamo, which traces this, must not see that a step is watched: it would guard on it.
            if compiling():
                nested = True
            elif is_open(forward):
                nested, call = True, watch.call
            else:
                # A module inside a dataset is part of loading, and workers call many of them.
                nested = is_open(loading) or worker._worker_info is not None
            if not nested:
                if waking is not None:
                    wake, waking = waking, None
                    wake()
                call, seen = watch.call, watch.seen
                if seen is not None:
                    seen(self)
                token = begin(forward, id(self), 1.0 if with_gradients() else 0.0)
        except Exception as error:  # noqa: BLE001 - the border with the user's program
            failed(names.FORWARD, error)
            nested = False
        if nested and call is None:
            if direct and self._compiled_call_impl is None:
                # The original has no frame here, so ours stays in tracebacks, in its place.
                return self._call_impl(*args, **kwargs)
            if compiling():
                return original(self, *args, **kwargs)
        wrong = 1
        try:
            if call is not None:
                result = call(original, self, args, kwargs)
            else:
                result = original(self, *args, **kwargs)
            wrong = 0
            return result
        except BaseException:
            hide_own_frames()
            raise
        finally:
            if not nested:
                try:
                    end(token, wrong)
                except Exception as error:  # noqa: BLE001
                    failed(names.FORWARD, error)

    wrapper = like(original, __call__, _position_of_call(original) if direct else None)
    wrapper.__qualname__ = "Module.__call__"  # where it can be found: pickle looks it up there
    return wrapper


def _known_call(self: Any, *args: Any, **kwargs: Any) -> Any:
    """What `Module.__call__` does in the torch we know."""
    if self._compiled_call_impl is not None:
        return self._compiled_call_impl(*args, **kwargs)
    return self._call_impl(*args, **kwargs)


def _is_as_known(original: Callable[..., Any]) -> bool:
    """Whether a nested call may go straight on: one Python call less is most of our cost."""
    code, known = getattr(original, "__code__", None), _known_call.__code__
    return code is not None and (code.co_code, code.co_names) == (known.co_code, known.co_names)


def _position_of_call(original: Callable[..., Any]) -> Position:
    """Where the original calls `_call_impl`, the last call in it."""
    code = original.__code__
    opcodes, called = code.co_code[::2], opcode.opmap["CALL_FUNCTION_EX"]
    line, *columns = list(code.co_positions())[opcodes.rindex(called)]
    return Position(line or code.co_firstlineno, *columns)


def _tell_dynamo(old: Any, new: Any) -> None:
    """torch._dynamo keeps the `Module.__call__` it saw when it was imported, in two modules."""
    for name in ("torch._dynamo.utils", "torch._dynamo.variables.nn_module"):
        module: Any = sys.modules.get(name)
        if module is not None and getattr(module, "unpatched_nn_module_call", None) is old:
            module.unpatched_nn_module_call = new
