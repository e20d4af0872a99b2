"""A few numbers that the training process and all workers of a loader see, however they started."""

from __future__ import annotations

import mmap
import os
from typing import Any

__all__ = ["Board", "open_memory"]

_SLOTS = 16


def open_memory(name: str, size: int) -> tuple[int, str]:
    """Memory as a file that goes with its last user: its descriptor, and a path by which other
    processes of this user reach it while this one lives."""
    descriptor = os.memfd_create(name)
    os.ftruncate(descriptor, size)
    return descriptor, f"/proc/{os.getpid()}/fd/{descriptor}"


class Board:
    """Numbers by place, all 0 at first. Writers are few, and lose nothing by a race."""

    def __init__(self) -> None:
        self._descriptor, self._path = open_memory("stepscope-board", 8 * _SLOTS)
        self._map(self._descriptor)

    def _map(self, descriptor: int) -> None:
        self._slots = memoryview(mmap.mmap(descriptor, 8 * _SLOTS)).cast("q")

    def __getitem__(self, place: int) -> int:
        return self._slots[place]

    def __setitem__(self, place: int, value: int) -> None:
        self._slots[place] = value

    def __getstate__(self) -> str:
        return self._path

    def __setstate__(self, path: str) -> None:
        self._descriptor, self._path = -1, path
        try:
            descriptor = os.open(path, os.O_RDWR)
        except OSError:  # a system that hides processes from each other: a board of its own
            self._slots = memoryview(bytearray(8 * _SLOTS)).cast("q")
            return
        try:
            self._map(descriptor)
        finally:
            os.close(descriptor)

    def __del__(self) -> None:
        descriptor: Any = getattr(self, "_descriptor", -1)
        if descriptor >= 0:
            os.close(descriptor)
