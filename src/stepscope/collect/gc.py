"""Garbage collections → `gc` spans."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from stepscope.model import names
from stepscope.record.recorder import Recorder

__all__ = ["GcCollector", "unseen_collections"]

_callbacks: list[Any] = []  # of the collectors that run


@contextmanager
def unseen_collections() -> Iterator[None]:
    """For collections that we ask for: they are none of the program's."""
    ours = [callback for callback in gc.callbacks if callback in _callbacks]
    for callback in ours:
        gc.callbacks.remove(callback)
    try:
        yield
    finally:
        gc.callbacks.extend(ours)


class GcCollector:
    """A span for each collection: generation and number of objects collected."""

    name = "gc"

    def __init__(self) -> None:
        self._callback: Callable[..., None] | None = None

    def start(self, recorder: Recorder) -> None:
        if self._callback is None:
            self._callback = recorder.gc_callback(recorder.intern(names.GC))
            gc.callbacks.append(self._callback)
            _callbacks.append(self._callback)

    def stop(self) -> None:
        if self._callback is not None:
            for callbacks in (gc.callbacks, _callbacks):
                if self._callback in callbacks:
                    callbacks.remove(self._callback)
        self._callback = None
