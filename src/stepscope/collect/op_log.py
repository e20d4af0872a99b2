"""The operators of one step → `op.logged` marks: what each was called with, so that they can be run
again after training in another dtype or layout (collect/replay.py).

A dispatch mode sees every operator, those of backward included, for one step and only where an
alternative is to be weighed. Values are not kept: shapes, strides, dtypes, numbers, and how many of
the values were subnormal.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from stepscope.collect.denormals import nobody_watches, subnormal_share
from stepscope.collect.hooking import HookingCollector
from stepscope.model import names
from stepscope.record.recorder import Recorder

__all__ = ["OpLogCollector", "describe"]

OP_NS = 30_000  # what seeing one operator costs, at most
OPS_OF_MODULE, OPS_OF_PARAMETER = 8, 4  # as long as nothing was counted
SHARE = 0.005  # of the wall clock since the first step, that the log may cost
MOST_OPS = 400  # different ones
MOST_CALLS = 20_000  # of a step
MOST_TEXT = 4000
FIRST = 6  # steps before it
_MISSING = object()


class OpLogCollector(HookingCollector):
    """`after_step` with every step's optimizer; logs one step, once `wanted` says so.

    `busy`: whether something else looks at the step that begins. `modules`: of the program.
    """

    name = "operator log"

    def __init__(
        self,
        wanted: Callable[[], bool],
        busy: Callable[[], bool],
        modules: Callable[[], list[Any]],
    ) -> None:
        super().__init__()
        self._wanted, self._busy, self._modules = wanted, busy, modules
        self._done = False
        self._steps = self._start_ns = self._optimizer = 0
        self._log: Any = None

    def _install(self, recorder: Recorder) -> None:
        self._recorder = recorder

    def _uninstall(self) -> None:
        self.drop()
        super()._uninstall()

    def drop(self) -> None:
        """Leave the step that is logged, if there is one: what was seen is forgotten."""
        log, self._log = self._log, None
        if log is not None:
            self._done = True
            log.leave()

    def after_step(self, optimizer: Any) -> None:
        """Never raises."""
        if self._done or not self._running:
            return
        try:
            self._step(id(optimizer))
        except Exception as error:  # noqa: BLE001 - the border with the user's program
            self._done = True
            self._recorder.failed(self.name, error)

    def _step(self, optimizer: int) -> None:
        now_ns = self._recorder.now_ns()
        self._start_ns = self._start_ns or now_ns
        self._steps += 1
        if self._log is not None:
            if optimizer == self._optimizer:
                self._finish()
        elif self._steps >= FIRST and self._can_pay(now_ns) and self._wanted():
            self._begin(optimizer)

    def _can_pay(self, now_ns: int) -> bool:
        passed_ns = now_ns - self._start_ns
        if SHARE * passed_ns < OP_NS * OPS_OF_MODULE:
            return False
        roots = self._modules()
        modules = sum(1 for root in roots for _ in root.modules())
        parameters = sum(1 for root in roots for _ in root.parameters())
        expected = OPS_OF_MODULE * modules + OPS_OF_PARAMETER * parameters
        return bool(SHARE * passed_ns >= OP_NS * expected)

    def _begin(self, optimizer: int) -> None:
        import torch

        if self._busy() or not nobody_watches(torch):
            return
        self._optimizer = optimizer
        self._log = _make_log(torch)
        self._log.__enter__()

    def _finish(self) -> None:
        began_ns = self._recorder.now_ns()
        log, self._log, self._done = self._log, None, True
        if not log.leave() or log.overflowed:
            return
        recorder = self._recorder
        mark, logged = recorder.mark, recorder.intern(names.OP_LOGGED)
        for text, count in log.told():
            mark(logged, count, recorder.intern(text))
        own_ns = log.calls * OP_NS + recorder.now_ns() - began_ns
        recorder.sample(recorder.intern(names.OWN_OP_LOG_NS), float(own_ns))


def _make_log(torch: Any) -> Any:
    """The class is made when torch is there."""
    from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode

    class OpLog(TorchDispatchMode):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.calls = 0
            self.overflowed = False
            self._seen: dict[Any, list[Any]] = {}  # key → [count, description, samples]

        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            if not self.overflowed:
                try:
                    self._note(func, args, kwargs or {})
                except Exception:  # noqa: BLE001 - an operator that we cannot describe
                    self.overflowed = True
            return func(*args, **(kwargs or {}))

        def _note(self, func: Any, args: Any, kwargs: Any) -> None:
            self.calls += 1
            key = (func, _key(torch, args), _key(torch, tuple(kwargs.items())))
            found = self._seen.get(key)
            if found is not None:
                found[0] += 1
            elif len(self._seen) < MOST_OPS and self.calls < MOST_CALLS:
                described = describe(torch, func, args, kwargs)
                self._seen[key] = [1, described]
            else:
                self.overflowed = True

        def leave(self) -> bool:
            """Whether it was on top, as it should be: the program may have one of its own."""
            if _get_current_dispatch_mode() is self:
                self.__exit__(None, None, None)
                return True
            self.overflowed = True  # it stays below the other one, and does nothing
            return False

        def told(self) -> list[tuple[str, int]]:
            texts = [(json.dumps(d), count) for count, d in self._seen.values() if d is not None]
            return [(text, count) for text, count in texts if len(text) <= MOST_TEXT]

    return OpLog()


def _key(torch: Any, value: Any) -> Any:
    """What makes two calls alike."""
    if isinstance(value, torch.Tensor):
        return (value.dtype, tuple(value.shape), value.stride(), value.device)
    if isinstance(value, (list, tuple)):
        return tuple(_key(torch, one) for one in value)
    return str(value)


def describe(torch: Any, func: Any, args: Any, kwargs: Any) -> dict[str, Any] | None:
    """An operator and its arguments as JSON; None: it only looks, or cannot be run again."""
    schema = func._schema
    if not schema.name.startswith("aten::") or _is_view(schema):
        return None
    given = [_value(torch, one) for one in args]
    named = {name: _value(torch, one) for name, one in kwargs.items()}
    if _MISSING in given or _MISSING in named.values():
        return None
    return {"op": schema.name, "overload": schema.overload_name, "args": given, "kwargs": named}


def _is_view(schema: Any) -> bool:
    return any(a.alias_info is not None and not a.alias_info.is_write for a in schema.arguments)


def _value(torch: Any, value: Any) -> Any:
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return {"float": repr(value)}
    if isinstance(value, torch.Tensor):
        return _tensor(torch, value)
    if isinstance(value, (torch.dtype, torch.memory_format, torch.layout, torch.device)):
        kind = type(value).__name__
        return {kind: str(value).removeprefix("torch.")}
    if isinstance(value, (list, tuple)):
        every = [_value(torch, one) for one in value]
        return _MISSING if _MISSING in every else every
    return _MISSING


def _tensor(torch: Any, value: Any) -> Any:
    if value.layout is not torch.strided or value.is_quantized or value.is_complex():
        return _MISSING
    made = {
        "shape": list(value.shape),
        "stride": list(value.stride()),
        "dtype": str(value.dtype).removeprefix("torch."),
        "device": value.device.type,
    }
    share = subnormal_share(torch, value)
    return made | ({"subnormal": share} if share else {})
