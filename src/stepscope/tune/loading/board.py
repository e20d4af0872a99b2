"""A few numbers that the training process and all workers of a loader see, however they started."""

from __future__ import annotations

import mmap
import os
from typing import Any, NamedTuple

__all__ = ["Board", "Place", "open_memory"]

_SLOTS = 16


def open_memory(name: str, size: int) -> int:
    """Memory as a file that goes with its last user."""
    descriptor = os.memfd_create(name)
    os.ftruncate(descriptor, size)
    return descriptor


class Place(NamedTuple):
    """How other processes of this user reach an open file of this one, while it has it open."""

    path: str
    device: int
    inode: int

    @classmethod
    def of(cls, descriptor: int) -> Place:
        found = os.fstat(descriptor)
        return cls(f"/proc/{os.getpid()}/fd/{descriptor}", found.st_dev, found.st_ino)

    def open(self) -> int:
        """OSError: it cannot be reached, or is another file by now."""
        descriptor = os.open(self.path, os.O_RDWR)
        found = os.fstat(descriptor)
        if (found.st_dev, found.st_ino) != (self.device, self.inode):
            os.close(descriptor)
            raise FileNotFoundError(self.path)
        return descriptor


class Board:
    """Numbers by place, all 0 at first. Writers are few, and lose nothing by a race."""

    def __init__(self) -> None:
        self._descriptor = open_memory("stepscope-board", 8 * _SLOTS)
        self._place = Place.of(self._descriptor)
        self._map(self._descriptor)

    def _map(self, descriptor: int) -> None:
        self._slots = memoryview(mmap.mmap(descriptor, 8 * _SLOTS)).cast("q")

    def __getitem__(self, place: int) -> int:
        return self._slots[place]

    def __setitem__(self, place: int, value: int) -> None:
        self._slots[place] = value

    def __getstate__(self) -> Place:
        return self._place

    def __setstate__(self, place: Place) -> None:
        self._descriptor, self._place = -1, place
        try:
            descriptor = place.open()
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
