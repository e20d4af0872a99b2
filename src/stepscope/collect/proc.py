"""Small files of /proc, kept open: reading again costs one system call."""

from __future__ import annotations

import os

__all__ = ["KeptFile", "read_once"]

_ROOM = 8192


class KeptFile:
    """A file that is read again and again; unreadable: None, and no further attempt."""

    __slots__ = ("_fd",)

    def __init__(self, path: str) -> None:
        try:
            self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            self._fd = -1

    def read(self, room: int = _ROOM) -> bytes | None:
        if self._fd < 0:
            return None
        try:
            return os.pread(self._fd, room, 0)
        except OSError:  # the process is gone, or it was never ours to read
            self.close()
            return None

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def read_once(path: str) -> str | None:
    """The text of a small file, or None where it cannot be read."""
    try:
        with open(path, encoding="ascii", errors="replace") as file:  # noqa: PTH123
            return file.read(_ROOM)
    except OSError:
        return None
