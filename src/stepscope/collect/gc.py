"""Garbage collections → `gc` spans."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

from stepscope.model import names
from stepscope.record.recorder import Recorder

__all__ = ["GcCollector"]


class GcCollector:
    """A span for each collection: generation and number of objects collected."""

    name = "gc"

    def __init__(self) -> None:
        self._callback: Callable[[str, dict[str, Any]], None] | None = None

    def start(self, recorder: Recorder) -> None:
        if self._callback is None:
            self._callback = recorder.gc_callback(recorder.intern(names.GC))
            gc.callbacks.append(self._callback)

    def stop(self) -> None:
        if self._callback in gc.callbacks:
            gc.callbacks.remove(self._callback)
        self._callback = None
