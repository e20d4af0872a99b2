"""How torch's operators are watched: a dispatch mode on every thread that has an open block.

Imported only when torch is there already (collect/flops.py). The formulas are torch's own
(torch.utils.flop_counter), so a count is what `FlopCounterMode` gives. What differs from it:

- Counts belong to blocks, found through a context variable, so tasks that take turns on one thread
  keep apart.
- Attention on the CPU is counted: torch has the formula and does not use it for its CPU kernel.
- torch.compile goes on compiling. A usual mode makes it give up on every function that is first
  called within it, for good.
- No hooks on modules, and no process-wide flags that threads could leave behind.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

import torch
import torch.utils.flop_counter as torch_flops
from torch.utils._python_dispatch import TorchDispatchMode, _pop_mode, _push_mode

from stepscope.collect.flop_blocks import Block
from stepscope.model.own_code import hide_own_frames

__all__ = ["Seat", "WatchMode", "inherited_block", "is_on_stack", "put_on", "take_off"]

Formula = Callable[..., int]
_CPU_ATTENTION = (
    (
        "_scaled_dot_product_flash_attention_for_cpu",
        "_scaled_dot_product_flash_attention",
    ),
    (
        "_scaled_dot_product_flash_attention_for_cpu_backward",
        "_scaled_dot_product_flash_attention_backward",
    ),
)
# Questions about a tensor that some subclasses dispatch: torch answers them itself.
_QUESTIONS = (
    "aten.sym_is_contiguous.default", "aten.is_contiguous.default",
    "aten.is_contiguous.memory_format", "aten.is_strides_like_format.default",
    "aten.is_non_overlapping_and_dense.default", "aten.size.default", "aten.sym_size.default",
    "aten.stride.default", "aten.sym_stride.default", "aten.storage_offset.default",
    "aten.sym_storage_offset.default", "aten.numel.default", "aten.sym_numel.default",
    "aten.dim.default", "prim.layout.default",
)  # fmt: skip
_PLAIN, _COMPOSITE, _QUESTION, _HIGHER_ORDER = range(4)
_kinds: dict[Any, int] = {}


def _cpu_attention() -> dict[Any, Formula]:
    """The formulas that torch has for attention, for the kernels that the CPU runs."""
    found = {}
    for name, like in _CPU_ATTENTION:
        op, same = getattr(torch.ops.aten, name, None), getattr(torch.ops.aten, like, None)
        if op is not None and same in torch_flops.flop_registry:
            found[op] = torch_flops.flop_registry[same]
    return found


_own_formulas = _cpu_attention()


class Seat:
    """A thread that has open blocks, with its mode."""

    def __init__(self, current: ContextVar[Block | None]) -> None:
        self.blocks: set[Block] = set()
        self.mode = WatchMode(current)


class WatchMode(TorchDispatchMode):  # type: ignore[misc]  # torch is Any to mypy
    """Sees every operator of the thread it is pushed on, and of the autograd threads that work
    for this one (torch hands the mode on to them)."""

    supports_higher_order_operators = True

    def __init__(self, current: ContextVar[Block | None]) -> None:
        super().__init__()
        self._current = current
        self._thread = threading.get_ident()
        self.latest: Block | None = None  # where this thread last worked

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        """Let torch.compile compile as if nobody watched."""
        return True

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:  # fmt: skip
        kwargs = kwargs or {}
        kind = _kinds.get(func)
        if kind is None:
            kind = _kinds[func] = _kind(func)
        if kind == _QUESTION:
            return NotImplemented
        try:
            if kind == _COMPOSITE:
                out = self._decomposed(func, args, kwargs)
                if out is not NotImplemented:
                    return out
                _kinds[func] = _PLAIN
            out = func(*args, **kwargs)
        except BaseException:
            hide_own_frames()
            raise
        try:
            self._count(func, kind, out, args, kwargs)
        except Exception as error:  # noqa: BLE001 - the user's operator is done: only we failed
            block = self.block()
            if block is not None:
                block.fail(f"the count of {func} failed: {type(error).__name__}: {error}")
        return out

    def block(self) -> Block | None:
        """The innermost block that the code which runs now belongs to."""
        block = self._current.get()
        if threading.get_ident() == self._thread:
            self.latest = block
        elif block is None:  # a thread of autograd: it has no context, and works for ours
            block = self.latest
        return block.still_open() if block is not None else None

    def _decomposed(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Run an operator as the parts it consists of, and see those."""
        _push_mode(self)
        try:
            return func.decompose(*args, **kwargs)
        finally:
            _pop_mode()

    def _count(self, func: Any, kind: int, out: Any, args: Any, kwargs: Any) -> None:
        block = self.block()
        if block is None:
            return
        packet = func if kind == _HIGHER_ORDER else func._overloadpacket
        formula = torch_flops.flop_registry.get(packet) or _own_formulas.get(packet)
        if formula is not None:
            block.charge(int(formula(*args, **kwargs, out_val=out)))
        elif kind == _HIGHER_ORDER:
            block.fail(f"what ran inside {func} could not be seen")
        else:
            block.without_formula.add(str(packet))


def _kind(func: Any) -> int:
    if isinstance(func, torch._ops.HigherOrderOperator):
        return _HIGHER_ORDER
    name = str(func)
    if name in _QUESTIONS:
        return _QUESTION
    # Every operator is asked once whether it consists of others.
    return _PLAIN if name == "prim.device.default" else _COMPOSITE


def _stack() -> list[Any]:
    """The modes of this thread, the innermost last; without those that torch keeps apart."""
    count = torch._C._len_torch_dispatch_stack()
    modes = [torch._C._get_dispatch_stack_at(place) for place in range(count)]
    return [mode for mode in modes if getattr(mode, "_mode_key", None) is None]


def is_on_stack(mode: WatchMode) -> bool:
    return any(one is mode for one in _stack())


def put_on(mode: WatchMode) -> None:
    _push_mode(mode)


def take_off(mode: WatchMode) -> None:
    """Remove a mode from this thread, unless somebody else's lies on top of it."""
    if _stack()[-1] is mode:
        _pop_mode()


def inherited_block() -> tuple[bool, Block | None]:
    """Whether this thread works for another one that is watched, and for which block."""
    here = threading.get_ident()
    for mode in reversed(_stack()):
        if isinstance(mode, WatchMode) and mode._thread != here:
            return True, mode.latest
    return False, None


def _warm_up() -> None:
    """The first operator under a mode makes torch import its compiler, a second's work: not
    within somebody's block."""
    mode = WatchMode(ContextVar("stepscope.flops.warm_up", default=None))
    _push_mode(mode)
    try:
        torch.empty(0, device="cpu")
    finally:
        _pop_mode()


_warm_up()
