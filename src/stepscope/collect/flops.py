"""FLOPs of the torch code within blocks: forward and backward, modules or plain tensor code."""

from __future__ import annotations

import os
import re
import sys
import threading
from collections.abc import Hashable
from contextvars import ContextVar
from typing import Any

from stepscope.collect.flop_blocks import Block

__all__ = ["FlopCounter"]

# Tasks and threads have contexts of their own, so each sees the blocks it is in.
_current: ContextVar[Block | None] = ContextVar("stepscope.flops", default=None)
_threads = threading.local()
_cannot: Exception | None = None  # why torch's operators cannot be watched here

NO_TORCH = "torch is not imported: no torch code can have run"
IMPORTED_WITHIN = "torch was imported within the block: what ran before cannot be known"
OTHER_THREAD = "the block ended on another thread than the one it began on"
FORKED = "the process was forked within the block"
DISTURBED = "torch's stack of modes was changed within the block"
COMPILED = "torch.compile is in use: kernels that it wrote itself are not counted"
# Operators that do much and mostly have no formula. The rest (sums, copies, …) does little.
_HEAVY = re.compile(
    r"rnn|lstm|gru|linalg|fft|sparse|mkldnn|quantized|transformer|attention|conv|mm\b|linear"
)


class FlopCounter:
    """Counts the floating-point operations of blocks; a multiply-add is two, as in torch.

    `leave` gives what ran between `enter` and it: on the thread of the block, in the tasks that
    were started within it, and in autograd's threads. A block that ran threads of its own has to
    be entered in each of them. Operators without a formula (all but matrix products, convolutions
    and attention) count nothing, as in torch; `notes` names those that matter.

    It has a price, as every operator passes through Python while a block is open. Measured on one
    CPU thread, a training step of a three-layer MLP: 4 times as long with 64 units (0.24 → 0.99
    ms, some 14 µs an operator), 3 % longer with 1,024 units and batches of 64. The first `enter`
    of a process takes a second (torch loads its compiler); take your clock after it. Entering and
    leaving a block takes 6 µs.

    torch.compile works as ever; matrix products that it leaves to libraries are counted, kernels
    that it wrote itself are not: see `notes`.
    """

    def __init__(self) -> None:
        self._reason = ""
        self._reasons: dict[Hashable, str] = {}
        self._without_formula: set[str] = set()

    def enter(self, key: Hashable) -> object:
        """Begin a block; what is returned belongs to `leave`. `key` is for `reason`."""
        around = _current.get()
        block = Block(key, around.still_open() if around is not None else None)
        try:
            _watch(block)
        except Exception as error:  # noqa: BLE001 - the user's program goes on uncounted
            block.fail(f"torch's operators cannot be watched: {type(error).__name__}: {error}")
        _current.set(block)
        return block

    def leave(self, token: object) -> int | None:
        """End a block: the FLOPs within it, nested blocks included. None: see `reason`."""
        if not isinstance(token, Block) or not token.is_open:
            return None
        try:
            _unwatch(token)
        except Exception as error:  # noqa: BLE001 - likewise
            token.fail(f"{DISTURBED}: {type(error).__name__}: {error}")
        if _current.get() is token:
            _current.set(token.parent.still_open() if token.parent is not None else None)
        token.close()
        self._without_formula |= token.without_formula
        if token.failure:
            self._reason = self._reasons[token.key] = token.failure
            return None
        return token.flops

    def reason(self, key: Hashable = None) -> str:
        """Why the last block without a count (of that key, if one is given) has none; "": none."""
        return self._reason if key is None else self._reasons.get(key, "")

    def without_formula(self) -> frozenset[str]:
        """The operators that ran within blocks and count nothing."""
        return frozenset(self._without_formula)

    def notes(self) -> tuple[str, ...]:
        """What the counts are or may be missing, a sentence each."""
        dynamo: Any = sys.modules.get("torch._dynamo.utils")
        graphs = dynamo.counters["stats"]["unique_graphs"] if dynamo is not None else 0
        heavy = sorted(name for name in self._without_formula if _HEAVY.search(name))
        uncounted = (f"torch has no formula for these, so they count 0: {', '.join(heavy)}",)
        return ((COMPILED,) if graphs else ()) + (uncounted if heavy else ())


def _watching() -> Any:
    """The module that stands in torch; None: torch is not there, or not whole yet."""
    torch = sys.modules.get("torch")
    if torch is None or getattr(torch.__spec__, "_initializing", False):
        return None
    global _cannot
    if _cannot:  # what failed once is not tried again with every block
        raise _cannot
    try:
        from stepscope.collect import flop_mode
    except Exception as error:
        _cannot = error
        raise
    return flop_mode


def _watch(block: Block) -> None:
    watching = _watching()
    if watching is None:
        block.failure = NO_TORCH  # of this block only: those around it may have seen torch
        return
    seat = getattr(_threads, "seat", None)
    if seat is None:
        works_for_another, latest = watching.inherited_block()
        if works_for_another:
            if block.parent is None and latest is not None:
                block.parent = latest.still_open()
            return
        seat = _threads.seat = watching.Seat(_current)
    if not seat.blocks and not watching.is_on_stack(seat.mode):
        watching.put_on(seat.mode)
    seat.blocks.add(block)
    seat.mode.latest = block
    block.seat = seat


def _unwatch(block: Block) -> None:
    if block.failure == NO_TORCH:
        if "torch" in sys.modules:
            block.failure = IMPORTED_WITHIN
        return
    is_here = block.thread == threading.get_ident()
    if not is_here:
        block.fail(OTHER_THREAD)
    seat = block.seat
    if seat is None:
        return
    seat.blocks.discard(block)
    if not is_here or seat.blocks:
        return  # of another thread, it stays without effect until that thread's next block
    watching = _watching()
    if watching.is_on_stack(seat.mode):
        watching.take_off(seat.mode)  # below somebody else's it stays as well
    else:
        block.fail(DISTURBED)


def _after_fork() -> None:
    """A child (a worker of a data loader, say) is not watched: nobody there would ask."""
    seat = getattr(_threads, "seat", None)
    if seat is None:
        return
    _threads.seat = None
    for block in seat.blocks:
        block.failure = block.failure or FORKED
        block.seat = None
    watching = _watching()
    if watching.is_on_stack(seat.mode):
        watching.take_off(seat.mode)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
