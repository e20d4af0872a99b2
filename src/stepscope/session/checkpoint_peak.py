"""By how much checkpoints lower the peak of memory, measured as the program runs.

Events cut the time into windows. In each, so much more would have been live without checkpoints as
is not kept just then; so one run shows both peaks. A window that ends with a recomputation has that
in it, which the other run would not: of such a one only its end counts for it.
"""

from __future__ import annotations

import sys
from typing import NamedTuple, Protocol

from stepscope.model import names
from stepscope.record.core import core

__all__ = ["Heap", "PeakWatch", "tensor_heap"]

_TENSORS = "libc10.so"
_EVENTS = (
    names.MEMORY_ALLOC,
    names.MEMORY_FREE,
    names.MEMORY_REFUSED,
    names.MEMORY_LABEL,
    names.MEMORY_HELD,
    names.MEMORY_PEAK,
)
_MOST_WINDOWS = 4096  # then it has seen enough, and costs nothing any more


class Heap(Protocol):
    """What is needed of the core's TensorHeap."""

    def end_step(self) -> tuple[int, int]: ...
    def stop(self) -> None: ...


def tensor_heap() -> Heap | None:
    """That counts from now on. None: it cannot, or somebody else counts, who must not be disturbed;
    and tensors on a GPU are not seen by it."""
    torch = sys.modules.get("torch")
    if core.TensorHeap is None or torch is None or torch.cuda.is_initialized():
        return None
    heap = core.TensorHeap(*map(core.intern, _EVENTS))
    if heap.watch(_TENSORS, True) <= 0:
        return None
    heap.book(True)
    return heap


class _Peaks(NamedTuple):
    """Bytes that were live at most, and that would have been without checkpoints."""

    now: int = 0
    without: int = 0


class PeakWatch:
    """Is told of each event, by one thread at a time."""

    def __init__(self, heap: Heap | None) -> None:
        self._heap = heap
        self._peaks: _Peaks | None = None
        self._windows = 0
        if heap is not None:
            heap.end_step()

    def window(self, unkept_bytes: int) -> None:
        """Until now, so much was not kept."""
        self._take(unkept_bytes, recomputed=False)

    def recomputed(self, unkept_bytes: int) -> None:
        """Something was recomputed; what is still not kept now."""
        self._take(unkept_bytes, recomputed=True)

    def _take(self, unkept_bytes: int, recomputed: bool) -> None:
        if self._heap is None:
            return
        most, now = self._heap.end_step()
        seen = self._peaks or _Peaks()
        would = (now if recomputed else most) + unkept_bytes
        self._peaks = _Peaks(max(seen.now, most), max(seen.without, would))
        self._windows += 1
        if self._windows >= _MOST_WINDOWS:
            self.stop()

    def stop(self) -> None:
        """What was seen stays. Again: nothing happens."""
        heap, self._heap = self._heap, None
        if heap is not None:
            heap.stop()

    @property
    def reduction_bytes(self) -> int | None:
        """Less than 0: the peak is higher with checkpoints. None: not measured."""
        return None if self._peaks is None else self._peaks.without - self._peaks.now
