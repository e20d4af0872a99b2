"""Descriptors that are ours, and stay so.

Most of this is about files that are kept open across calls, inside the user's process. A program
may close every descriptor it finds (daemons do) and then get our number for a file of its own. So
every use of such a file asks for its number, which is given only while it refers to the device and
inode that it was opened on. A number that does not is forgotten, never closed.

One case goes unnoticed: the program has opened the very same file under our old number.
"""

from __future__ import annotations

import errno
import io
import os
import stat
from typing import Any

__all__ = ["Descriptor", "RawFile", "identity_of", "is_our_socket", "map_file", "open_own"]


def identity_of(number: int) -> tuple[int, int] | None:
    """Device and inode of an open descriptor; None: it is closed."""
    try:
        state = os.fstat(number)
    except OSError:
        return None
    return state.st_dev, state.st_ino


def is_our_socket(sock: Any, opened: tuple[int, int] | None) -> bool:
    """False: the program has closed our socket, of this identity. The socket forgets its number
    then, so that closing it does no harm."""
    if opened is not None and identity_of(sock.fileno()) == opened:
        return True
    sock.detach()
    return False


class Descriptor:
    """Owns an open descriptor, and closes it when it goes."""

    __slots__ = ("_number", "_opened")

    def __init__(self, number: int) -> None:
        self._number = number
        self._opened = identity_of(number)

    @classmethod
    def open(cls, path: str | os.PathLike[str], flags: int, mode: int = 0o600) -> Descriptor:
        return cls(os.open(path, flags | os.O_CLOEXEC, mode))

    @property
    def is_ours(self) -> bool:
        """False: it was closed, by us or by the program."""
        return self._opened is not None and identity_of(self._number) == self._opened

    def fileno(self) -> int:
        """For use at once, never to be kept. OSError (EBADF): it is not ours any more."""
        if self._opened is None or identity_of(self._number) != self._opened:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        return self._number

    def close(self) -> None:
        if self.is_ours:
            os.close(self._number)
        self._opened = None

    def __del__(self) -> None:
        if os is not None:  # else Python ends, and has cleared this module
            self.close()


class RawFile(io.RawIOBase):
    """An unbuffered file to write. OSError (EBADF): the program has closed its descriptor."""

    def __init__(self, file: Descriptor) -> None:
        self.file = file

    def fileno(self) -> int:
        return self.file.fileno()

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def write(self, data: Any, /) -> int:
        return os.write(self.fileno(), data)

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        return os.lseek(self.fileno(), offset, whence)

    def truncate(self, size: int | None = None, /) -> int:
        size = self.tell() if size is None else size
        os.ftruncate(self.fileno(), size)
        return size

    def close(self) -> None:
        super().close()
        self.file.close()


def open_own(path: str | os.PathLike[str], flags: int) -> int:
    """Opens a file that is to be written, in a folder that somebody else may have filled.

    OSError: it is a symbolic link, no regular file, has a second name, or belongs to somebody who
    is neither this user nor the owner of the folder (on some network disks we are not the owner of
    what we make).
    """
    folder, name = os.path.split(os.fspath(path))
    flags |= os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    directory = os.open(folder or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        number = os.open(name, flags, 0o600, dir_fd=directory)
        owners = (os.geteuid(), os.fstat(directory).st_uid)
    finally:
        os.close(directory)
    state = os.fstat(number)
    if stat.S_ISREG(state.st_mode) and state.st_uid in owners and state.st_nlink == 1:
        return number
    os.close(number)
    raise PermissionError(errno.EPERM, "it is not a file of ours", os.fspath(path))


def map_file(number: int, size: int, *, writable: bool = True) -> memoryview:
    """The memory of an open file, shared with all who map it, until the last view of it goes.

    Unlike mmap.mmap, which keeps a duplicate of the descriptor and closes its number in the end,
    whoever's it is by then. OSError: the file cannot be mapped.
    """
    import ctypes
    import mmap
    import weakref

    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    allowed = mmap.PROT_READ | (mmap.PROT_WRITE if writable else 0)
    address = libc.mmap(None, size, allowed, mmap.MAP_SHARED, number, 0)
    if address == ctypes.c_void_p(-1).value:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    pages = (ctypes.c_ubyte * size).from_address(address)
    # Not at exit: threads may still read it then.
    weakref.finalize(pages, libc.munmap, address, size).atexit = False
    view = memoryview(pages).cast("B")
    return view if writable else view.toreadonly()
