"""The one way to the blocks of torch's CPU allocator, for all who want to see them.

There is one heap a process (record/protocol.py). Who comes first has it watch, who leaves last lets
everything be as it was.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from stepscope.model import names

if TYPE_CHECKING:
    from stepscope.record.protocol import Core, TensorHeap

__all__ = ["TENSORS", "HeapMarks", "HeapUnseenError", "leave_heap", "mark_heap", "use_heap"]

TENSORS: Final = "libc10.so"
_EVENTS: Final = (
    names.MEMORY_ALLOC,
    names.MEMORY_FREE,
    names.MEMORY_REFUSED,
    names.MEMORY_LABEL,
    names.MEMORY_HELD,
    names.MEMORY_PEAK,
)
_lock = threading.RLock()
_users = 0
_marking: HeapMarks | None = None


class HeapUnseenError(Exception):
    """The blocks cannot be seen; the text says why."""


def use_heap(core: Core) -> TensorHeap:
    """The heap, which books from now on; to be given back with `leave_heap`."""
    global _users
    if core.TensorHeap is None:
        raise HeapUnseenError(f"the {core.name} core cannot see them")
    heap: TensorHeap = core.TensorHeap(*map(core.intern, _EVENTS))
    with _lock:
        # Once it is watched there is nothing more to change.
        if not _users and heap.watch(TENSORS, True) <= 0:
            raise HeapUnseenError(f"{TENSORS} does not call malloc in a way that can be seen")
        _users += 1
        if _users == 1:
            heap.book(True)
    return heap


def leave_heap(heap: TensorHeap) -> None:
    global _users
    with _lock:
        _users -= 1
        if not _users:
            heap.stop()


class HeapMarks:
    """How much was live at most from one mark to the next. One at a time has them: another who
    needs them takes them over, and `is_lost` tells."""

    def __init__(self, heap: TensorHeap) -> None:
        self.heap = heap
        self.is_lost = False
        self.mark: Callable[[], tuple[int, int]] = heap.mark  # (most since the last one, now)

    def close(self) -> None:
        """Again: nothing happens."""
        global _marking
        with _lock:
            if _marking is self:
                _marking = None
            if not self.is_lost:
                self.is_lost = True
                leave_heap(self.heap)


def mark_heap(core: Core) -> HeapMarks:
    """Raises HeapUnseenError."""
    global _marking
    with _lock:
        made = HeapMarks(use_heap(core))
        if _marking is not None:
            _marking.close()
        _marking = made
    made.mark()
    return made
