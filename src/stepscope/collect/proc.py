"""Small files of /proc, kept open: reading one again takes two system calls."""

from __future__ import annotations

import os

from stepscope.descriptor import Descriptor

__all__ = ["KeptFile", "read_once"]

_ROOM = 8192


class KeptFile:
    """A file that is read again and again; unreadable: None, and no further attempt.

    It is opened anew where the program has closed it (descriptor.py).
    """

    __slots__ = ("_file", "_path")

    def __init__(self, path: str) -> None:
        self._path = path
        self._file: Descriptor | None = None
        self._open()

    def _open(self) -> None:
        try:
            self._file = Descriptor.open(self._path, os.O_RDONLY)
        except OSError:
            self._file = None

    def read(self, room: int = _ROOM) -> bytes | None:
        if self._file is None:
            return None
        try:
            return os.pread(self._file.fileno(), room, 0)
        except OSError:
            if self._file.is_ours:  # the process is gone, or it was never ours to read
                self.close()
                return None
        self._open()
        return self.read(room)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


def read_once(path: str) -> str | None:
    """The text of a small file, or None where it cannot be read."""
    try:
        with open(path, encoding="ascii", errors="replace") as file:  # noqa: PTH123
            return file.read(_ROOM)
    except OSError:
        return None
