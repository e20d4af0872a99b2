"""Outermost module calls → `forward` spans.

Where a program calls `module.forward()` itself, that is noticed by the modules called within: the
class's `forward` then gets a span, from the next call on.

`torch.nn.Module.__call__` is replaced by a plain function: a compiled model takes the same short
cut through it as through the original (torch._dynamo compares functions, see `_tell_dynamo`).
"""

from __future__ import annotations

import contextlib
import functools
import opcode
import sys
import weakref
from collections.abc import Callable
from types import CodeType, FrameType, FunctionType
from typing import Any

from stepscope.collect.chain import Patches, Position, like, nothing, placed
from stepscope.collect.graph_nodes import tensors_of
from stepscope.collect.hooking import HookingCollector
from stepscope.collect.watch import UNWATCHED, Watch
from stepscope.model import names
from stepscope.model.own_code import hide_own_frames
from stepscope.record.recorder import Recorder

__all__ = ["ForwardCollector", "forward_call"]

_MOST_INPUTS = 8  # that are remembered of calls without gradients
# The last observation of a rollout is given twice: to bootstrap, and to begin the next rollout.
_FRESH_TIMES = 2


class ForwardCollector(HookingCollector):
    """A span for each module call that is not inside another; nested calls only look."""

    name = "forward"

    def __init__(self, first: Callable[[], None] = nothing, watch: Watch = UNWATCHED) -> None:
        super().__init__(first)
        self._watch = watch

    def _install(self, recorder: Recorder) -> None:
        from torch.nn import Module

        original = Module.__call__
        methods = _ForwardMethods(recorder, self._patches, Module)
        wrapper = forward_call(recorder, original, self._first, self._watch, methods.check)
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
    check: Callable[[FrameType], None] | None = None,
) -> Callable[..., Any]:
    """The function that takes the place of `Module.__call__`.

    Every module call of the program passes here, so nested ones leave at the first line.
    `check` is shown the caller of an outermost one if that is called `forward`.
    """
    import torch
    from torch.utils.data._utils import worker

    begin, end, is_open, failed = recorder.begin, recorder.end, recorder.is_open, recorder.failed
    forward = recorder.intern(names.FORWARD)
    loading = recorder.intern(names.INPUT_NEXT)
    compiling = torch.compiler.is_dynamo_compiling
    with_gradients, trained = torch.is_grad_enabled, names.FORWARD_WITH_GRADIENTS
    frame = sys._getframe
    inputs = _KnownInputs(torch.Tensor)
    waking: Callable[[], None] | None = first
    direct = _is_as_known(original)

    def __call__(self: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: C901, N807
        nonlocal waking
        # Dynamo, which traces this, must not see that a step is watched: it would guard on it.
        traced, inner = compiling(), False
        try:
            inner = not traced and is_open(forward)
        except Exception as error:  # noqa: BLE001 - the border with the user's program
            failed(names.FORWARD, error)
        if inner and direct and watch.call is None and self._compiled_call_impl is None:
            # The original has no frame here, so ours stays in tracebacks, in its place.
            return self._call_impl(*args, **kwargs)
        token, call = -1, None
        try:
            if traced:
                nested = True
            elif inner:
                nested, call = True, watch.call
            else:
                # A module inside a dataset is part of loading, and workers call many of them.
                nested = is_open(loading) or worker._worker_info is not None
            if not nested:
                if waking is not None:
                    wake, waking = waking, None
                    wake()
                if check is not None:
                    caller = frame(1)
                    if caller.f_code.co_name == "forward":
                        check(caller)
                    del caller
                call, seen = watch.call, watch.seen
                if seen is not None:
                    seen(self)
                kind = trained if with_gradients() else inputs.kind(self, args, kwargs)
                token = begin(forward, id(self), kind)
        except Exception as error:  # noqa: BLE001 - the border with the user's program
            failed(names.FORWARD, error)
            nested = False
        if nested and call is None:
            if direct and self._compiled_call_impl is None:
                return self._call_impl(*args, **kwargs)
            if traced:
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


class _ForwardMethods:
    """Puts spans around `forward` methods that the program calls directly."""

    def __init__(self, recorder: Recorder, patches: Patches, module: type) -> None:
        self._recorder, self._patches, self._module = recorder, patches, module
        self._others: set[CodeType] = set()  # functions called `forward` that are no such methods
        # A class that a function makes shares its code with those made before: classes are checked.
        self._checked: weakref.WeakSet[type] = weakref.WeakSet()

    def check(self, caller: FrameType) -> None:
        """`caller`: a function called `forward` that runs outside any forward span."""
        code = caller.f_code
        if code in self._others:
            return
        given = caller.f_locals.get(code.co_varnames[0]) if code.co_argcount else None
        if not isinstance(given, self._module):
            self._others.add(code)
            return
        if type(given) in self._checked:
            return
        self._checked.add(type(given))
        for owner in type(given).__mro__:
            method = vars(owner).get("forward")
            if getattr(method, "__code__", None) is code:
                self._patches.put(owner, "forward", _forward_method(self._recorder, method))
                return


def _forward_method(recorder: Recorder, original: Any) -> Callable[..., Any]:
    """`original`, a forward method, within a forward span where none is open.

    It has the globals of the original, in which torch.jit.script looks up names, so it uses none.
    """
    import torch

    compiling, within = torch.compiler.is_dynamo_compiling, _ForwardSpans(recorder, torch)

    def wrapper(self: Any, *args: Any, **kwargs: Any) -> Any:
        if compiling():
            return original(self, *args, **kwargs)
        with within((self, args, kwargs)):
            return original(self, *args, **kwargs)

    code, closure = placed(wrapper, original).__code__, wrapper.__closure__
    return like(original, FunctionType(code, original.__globals__, "forward", None, closure))


class _ForwardSpans:
    """Gives the span of a call, as a context manager.

    Whoever pickles the user's class by value (cloudpickle does) pickles our wrapper with it, and
    the result has to load where there is no stepscope: this becomes a context that does nothing.
    """

    def __init__(self, recorder: Recorder, torch: Any) -> None:
        self._recorder, self._with_gradients = recorder, torch.is_grad_enabled
        self._forward = recorder.intern(names.FORWARD)
        self._loading = recorder.intern(names.INPUT_NEXT)
        self._inputs = _KnownInputs(torch.Tensor)

    def __call__(self, call: tuple[Any, tuple[Any, ...], dict[str, Any]]) -> _ForwardSpan:
        recorder, token = self._recorder, -1
        try:
            if not (recorder.is_open(self._forward) or recorder.is_open(self._loading)):
                kind = names.FORWARD_WITH_GRADIENTS
                if not self._with_gradients():
                    kind = self._inputs.kind(*call)
                token = recorder.begin(self._forward, id(call[0]), kind)
        except Exception as error:  # noqa: BLE001 - the border with the user's program
            recorder.failed(names.FORWARD, error)
        return _ForwardSpan(recorder, token)

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        return functools.partial, (contextlib.nullcontext,)


class _ForwardSpan:
    __slots__ = ("_recorder", "_token")

    def __init__(self, recorder: Recorder, token: int) -> None:
        self._recorder, self._token = recorder, token

    def __enter__(self) -> None:
        pass

    def __exit__(self, error: object, *_: object) -> None:
        try:
            if self._token >= 0:
                self._recorder.end(self._token, error is not None)
        except Exception as mistake:  # noqa: BLE001 - the border with the user's program
            self._recorder.failed(names.FORWARD, mistake)
        if error is not None:
            hide_own_frames()


class _KnownInputs:
    """What kind of forward a call without gradients is (names.FORWARD).

    Held-out data that is kept in memory comes again and again, observations of an environment do
    not: the last few inputs are remembered, by weak references.
    """

    def __init__(self, tensor: type) -> None:
        self._tensor = tensor
        # (module, id of a tensor) → the tensor, its version, how often it was the input
        self._seen: dict[tuple[int, int], tuple[weakref.ref[Any], int, int]] = {}

    def kind(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> float:
        given: Any = next(tensors_of((*args, *kwargs.values()), self._tensor), None)
        if given is not None and not given.is_inference():
            key, times, version = (id(module), id(given)), 1, given._version
            known = self._seen.pop(key, None)
            if known is not None and known[0]() is given and known[1] == version:
                times = known[2] + 1
            self._seen[key] = weakref.ref(given), version, times
            if len(self._seen) > _MOST_INPUTS:
                self._seen.pop(next(iter(self._seen)), None)
            # What numpy owns may change without a new version: environments write there.
            if times > _FRESH_TIMES and given.untyped_storage().resizable():
                return names.FORWARD_ON_KNOWN
        return names.FORWARD_WITHOUT if module.training else names.FORWARD_IN_EVAL


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
