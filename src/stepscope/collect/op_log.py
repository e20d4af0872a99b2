"""The operators of one step → `op.logged` marks: what each was called with, so that they can be run
again after training in another dtype or layout (collect/replay.py).

A dispatch mode sees every operator, those of backward included, for one step and only where an
alternative is to be weighed. Values are not kept: shapes, strides, dtypes, numbers, and how many of
the values were subnormal, or selected by a mask.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

from stepscope.collect.denormals import SubnormalShare, nobody_watches
from stepscope.collect.hooking import HookingCollector
from stepscope.model import names
from stepscope.model.op_log import AGAIN, PARTIAL, tensors
from stepscope.model.own_code import hide_own_frames
from stepscope.record.recorder import Recorder

__all__ = ["SHARE", "WIDE_SHARE", "OpLogCollector", "describe"]

OP_NS = 30_000  # what seeing one operator costs, before any was seen
PASS_NS = 5_000  # what one costs that is only counted
LEAST_NS = 5_000_000
OPS_OF_MODULE, OPS_OF_PARAMETER = 8, 4  # as long as nothing was counted
SHARE = 0.005  # of the wall clock since the first step, that the log may cost
WIDE_SHARE = 0.1  # of a program that is run for nothing but to be looked at
MOST_OPS = 400  # different ones
LOOKED_AT = 4  # calls of each, at the values of
MOST_TEXT = 4000
FIRST = 6  # steps before it
MOST_ATTEMPTS = 3
_MISSING = object()


class OpLogCollector(HookingCollector):
    """`after_step` with every step's optimizer; logs one step, once `wanted` says so. A step that
    it could not log whole is followed by another one, when more time has passed.

    `busy`: whether something else looks at the step that begins. `modules`: of the program.
    `share`: of the wall clock since the first step, that it may cost.
    """

    name = "operator log"

    def __init__(
        self,
        wanted: Callable[[], bool],
        busy: Callable[[], bool],
        modules: Callable[[], list[Any]],
        share: float = SHARE,
    ) -> None:
        super().__init__()
        self._share = share
        self._wanted, self._busy, self._modules = wanted, busy, modules
        self._done = False
        self._steps = self._start_ns = self._optimizer = self._attempts = 0
        self._expected_ns = 0  # what the log of a step will cost; 0: not asked yet
        self._mode: Any = None  # of the step that is logged
        self._leaving: Any = None  # it is over, but a mode of the program's was on top

    def _install(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._next = recorder.intern(names.INPUT_NEXT)

    def _uninstall(self) -> None:
        self.drop()
        super()._uninstall()

    def drop(self) -> None:
        """Leave the step that is logged, if there is one: what was seen is forgotten."""
        mode, self._mode = self._mode, None
        if mode is not None:
            self._done = self._seen.overflowed = True
            self._leaving = None if _leave(mode) else mode

    @property
    def is_looking(self) -> bool:
        return self._mode is not None or self._leaving is not None

    def after_step(self, optimizer: Any) -> None:
        """Never raises."""
        if not self._running or (self._done and self._leaving is None):
            return
        try:
            if self._leaving is not None:
                self._leaving = None if _leave(self._leaving) else self._leaving
                return
            self._step(id(optimizer))
        except Exception as error:  # noqa: BLE001 - the border with the user's program
            self._done, self._leaving = True, None
            self._recorder.failed(self.name, error)

    def _step(self, optimizer: int) -> None:
        now_ns = self._recorder.now_ns()
        self._start_ns = self._start_ns or now_ns
        self._steps += 1
        if self._mode is not None:
            if optimizer == self._optimizer:
                self._finish()
        elif self._steps >= FIRST:
            budget_ns = int(self._share * (now_ns - self._start_ns))
            if self._is_enough(budget_ns) and self._wanted():
                self._begin(optimizer, budget_ns)

    def _is_enough(self, budget_ns: int) -> bool:
        """For all operators of a step, as far as can be told."""
        if budget_ns < LEAST_NS:
            return False
        if not self._expected_ns:
            roots = self._modules()
            modules = sum(1 for root in roots for _ in root.modules())
            parameters = sum(1 for root in roots for _ in root.parameters())
            expected = OPS_OF_MODULE * modules + OPS_OF_PARAMETER * parameters
            self._expected_ns = max(1, OP_NS * expected)
        return budget_ns >= self._expected_ns

    def _begin(self, optimizer: int, budget_ns: int) -> None:
        import torch

        if self._busy() or not nobody_watches(torch):
            return
        self._attempts += 1
        self._optimizer, self._seen = optimizer, Seen(torch, budget_ns)
        self._mode = _make_mode(self._seen, lambda: self._recorder.is_open(self._next))
        self._mode.__enter__()

    def _finish(self) -> None:
        began_ns = self._recorder.now_ns()
        mode, self._mode, self._done = self._mode, None, True
        left, seen = _leave(mode), self._seen
        if seen.error is not None:
            self._recorder.failed(self.name, seen.error)
        if not left:
            self._leaving, seen.overflowed = mode, True
        if seen.overflowed:
            return
        recorder = self._recorder
        mark, logged = recorder.mark, recorder.intern(names.OP_LOGGED)
        if self._attempts > 1:
            mark(logged, 0, recorder.intern(AGAIN))
        for text, count in seen.told():
            mark(logged, count, recorder.intern(text))
        if seen.noted < seen.calls and self._attempts < MOST_ATTEMPTS:
            # Later, when there is time for all of them.
            self._done = False
            self._expected_ns = int(1.5 * seen.spent_ns * seen.calls / seen.noted)
        own_ns = seen.spent_ns + seen.calls * PASS_NS + recorder.now_ns() - began_ns
        recorder.sample(recorder.intern(names.OWN_OP_LOG_NS), float(own_ns))


class Seen:
    """The operators of a step: how often each was called, and with what."""

    def __init__(self, torch: Any, budget_ns: int = 1 << 62) -> None:
        self._torch, self._budget_ns = torch, budget_ns
        self._shares = SubnormalShare(torch)
        self.calls = self.noted = self.spent_ns = 0
        self.error: Exception | None = None
        self.overflowed = False  # there were too many, or one that we do not understand
        self._by_key: dict[Any, list[Any]] = {}  # key → [count, description, subnormal shares]
        self._views: dict[Any, bool] = {}  # by operator

    def note(self, func: Any, args: Any, kwargs: Any) -> None:
        """Never raises."""
        self.calls += 1
        if self.overflowed or self.spent_ns > self._budget_ns:
            return
        self.noted += 1
        began_ns = time.perf_counter_ns()
        try:
            self._note(func, args, kwargs)
            self.spent_ns += time.perf_counter_ns() - began_ns
        except Exception as error:  # noqa: BLE001 - the border with the user's program
            self.overflowed, self.error = True, error

    def _note(self, func: Any, args: Any, kwargs: Any) -> None:
        is_view = self._views.get(func)
        if is_view is None:
            is_view = self._views[func] = _is_view(func._schema)
        if is_view:
            return
        key = (func, _key(self._torch, args), _key(self._torch, tuple(kwargs.items())))
        found = self._by_key.get(key)
        if found is None:
            if len(self._by_key) >= MOST_OPS:
                return
            found = self._by_key[key] = [0, describe(self._torch, func, args, kwargs), []]
        found[0] += 1
        if found[0] <= LOOKED_AT and found[1] is not None:
            found[2].append(self._subnormal(args))

    def _subnormal(self, args: Any) -> tuple[int, float]:
        """Of the largest tensor: which it is, and the share of its values."""
        tensors = _tensors_in(args)
        sizes = [tensor.numel() for tensor in tensors]
        place = sizes.index(max(sizes)) if sizes else -1
        return place, self._shares.of(tensors[place]) if sizes else 0.0

    def told(self) -> list[tuple[str, int]]:
        """(description, calls). Those without one last, as "{}": most of them views. And, as
        "partial", what came after the budget was spent."""
        texts = [
            (json.dumps(_with_shares(described, shares)), count)
            for count, described, shares in self._by_key.values()
            if described is not None
        ]
        told = [(text, count) for text, count in texts if len(text) <= MOST_TEXT]
        told.append(("{}", self.noted - sum(count for _, count in told)))
        if self.noted < self.calls:
            told.append((PARTIAL, self.calls - self.noted))
        return told


def _make_mode(seen: Seen, loading: Callable[[], bool]) -> Any:
    """What makes batches is no computation. The class is made when torch is there."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class OpLog(TorchDispatchMode):  # type: ignore[misc]
        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            if not loading():
                seen.note(func, args, kwargs or {})
            try:
                return func(*args, **(kwargs or {}))
            except BaseException:
                hide_own_frames()
                raise

    return OpLog()


def _leave(mode: Any) -> bool:
    """Whether it was on top, as it should be: the program may have entered one of its own, and then
    ours stays below it."""
    from torch.utils._python_dispatch import _get_current_dispatch_mode

    if _get_current_dispatch_mode() is not mode:
        return False
    mode.__exit__(None, None, None)
    return True


def _key(torch: Any, value: Any) -> Any:
    """What makes two calls alike."""
    if isinstance(value, torch.Tensor):
        stride = value.stride() if value.layout is torch.strided else None
        return (value.dtype, tuple(value.shape), value.layout, stride, value.device)
    if isinstance(value, (list, tuple)):
        return tuple(_key(torch, one) for one in value)
    if value is None or isinstance(value, (bool, int, float, str, torch.dtype, torch.device)):
        return value
    return type(value)  # what it says of itself may be long: a storage shows all of its bytes


def describe(torch: Any, func: Any, args: Any, kwargs: Any) -> dict[str, Any] | None:
    """An operator and its arguments as JSON; None: it cannot be run again."""
    schema = func._schema
    if not schema.name.startswith("aten::"):
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
    described = {
        "shape": list(value.shape),
        "stride": list(value.stride()),
        "dtype": str(value.dtype).removeprefix("torch."),
        "device": value.device.type,
    }
    if value.dtype is torch.bool and value.device.type == "cpu" and value.numel():
        # How much a mask selects is how much there is to do.
        described["true"] = int(value.count_nonzero()) / value.numel()
    return described


def _with_shares(described: dict[str, Any], shares: list[tuple[int, float]]) -> dict[str, Any]:
    """With the share of subnormal values of its largest tensor, on average over calls."""
    share = sum(one for _, one in shares) / len(shares) if shares else 0.0
    if share:
        list(tensors(described["args"]))[shares[0][0]]["subnormal"] = share
    return described


def _tensors_in(args: Any) -> list[Any]:
    """In order."""
    found = []
    for one in args:
        if isinstance(one, (list, tuple)):
            found += _tensors_in(one)
        elif hasattr(one, "untyped_storage"):
            found.append(one)
    return found
