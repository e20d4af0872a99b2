"""A few numbers that the training process and all workers of a loader see, however they started."""

from __future__ import annotations

import os
from typing import NamedTuple

from stepscope.descriptor import Descriptor, map_file

__all__ = ["Board", "Place", "open_memory"]

_SLOTS = 16


def open_memory(name: str, size: int) -> Descriptor:
    """Memory as a file that goes with its last user."""
    file = Descriptor(os.memfd_create(name))
    os.ftruncate(file.fileno(), size)
    return file


class Place(NamedTuple):
    """How other processes of this user reach an open file of this one, while it has it open."""

    path: str
    device: int
    inode: int

    @classmethod
    def of(cls, file: Descriptor) -> Place:
        number = file.fileno()
        found = os.fstat(number)
        return cls(f"/proc/{os.getpid()}/fd/{number}", found.st_dev, found.st_ino)

    def open(self) -> Descriptor:
        """OSError: it cannot be reached, or is another file by now."""
        file = Descriptor.open(self.path, os.O_RDWR | os.O_NONBLOCK)
        found = os.fstat(file.fileno())
        if (found.st_dev, found.st_ino) != (self.device, self.inode):
            raise FileNotFoundError(self.path)
        return file


class Board:
    """Numbers by place, all 0 at first. Writers are few, and lose nothing by a race."""

    def __init__(self) -> None:
        self._file: Descriptor | None = open_memory("stepscope-board", 8 * _SLOTS)
        self._place = Place.of(self._file)
        self._map(self._file)

    def _map(self, file: Descriptor) -> None:
        self._slots = map_file(file.fileno(), 8 * _SLOTS).cast("q")

    def __getitem__(self, place: int) -> int:
        return self._slots[place]

    def __setitem__(self, place: int, value: int) -> None:
        self._slots[place] = value

    def __getstate__(self) -> Place:
        return self._place

    def __setstate__(self, place: Place) -> None:
        self._file, self._place = None, place
        try:
            self._map(place.open())
        except OSError:  # a system that hides processes from each other: a board of its own
            self._slots = memoryview(bytearray(8 * _SLOTS)).cast("q")
