"""By how much checkpoints lower the peak of memory, measured as the program runs.

Events cut the time into windows. In each, so much more would have been live without checkpoints as
is not kept just then; so one run shows both peaks. A window that ends with a recomputation has that
in it, which the other run would not: of such a one only its end counts for it.
"""

from __future__ import annotations

import sys
from typing import NamedTuple, Protocol

from stepscope.record.core import core

__all__ = ["Marks", "PeakWatch", "heap_marks"]

_MOST_WINDOWS = 4096  # then it has seen enough, and costs nothing any more


class Marks(Protocol):
    """What is needed of collect/tensor_heap.py's HeapMarks."""

    is_lost: bool

    def mark(self) -> tuple[int, int]: ...
    def close(self) -> None: ...


def heap_marks() -> Marks | None:
    """From now on. None: tensors cannot be seen, or they are on a GPU."""
    torch = sys.modules.get("torch")
    if torch is None or torch.cuda.is_initialized():
        return None
    from stepscope.collect.tensor_heap import HeapUnseenError, mark_heap

    try:
        return mark_heap(core)
    except HeapUnseenError:
        return None


class _Peaks(NamedTuple):
    """Bytes that were live at most, and that would have been without checkpoints."""

    now: int = 0
    without: int = 0


class PeakWatch:
    """Is told of each event, by one thread at a time."""

    def __init__(self, marks: Marks | None) -> None:
        self._marks = marks
        self._peaks: _Peaks | None = None
        self._windows = 0

    def window(self, unkept_bytes: int) -> None:
        """Until now, so much was not kept."""
        self._take(unkept_bytes, recomputed=False)

    def recomputed(self, unkept_bytes: int) -> None:
        """Something was recomputed; what is still not kept now."""
        self._take(unkept_bytes, recomputed=True)

    def _take(self, unkept_bytes: int, recomputed: bool) -> None:
        if self._marks is None or self._marks.is_lost:
            return
        most, now = self._marks.mark()
        seen = self._peaks or _Peaks()
        would = (now if recomputed else most) + unkept_bytes
        self._peaks = _Peaks(max(seen.now, most), max(seen.without, would))
        self._windows += 1
        if self._windows >= _MOST_WINDOWS:
            self.stop()

    def stop(self) -> None:
        """What was seen stays. Again: nothing happens."""
        marks, self._marks = self._marks, None
        if marks is not None:
            marks.close()

    @property
    def reduction_bytes(self) -> int | None:
        """Less than 0: the peak is higher with checkpoints. None: not measured."""
        return None if self._peaks is None else self._peaks.without - self._peaks.now
