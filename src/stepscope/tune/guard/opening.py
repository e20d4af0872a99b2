"""Opening files: for reading where they are, for writing in the scratch folder."""

from __future__ import annotations

import _io
from abc import ABCMeta
from errno import EACCES, EEXIST, ELOOP
from os import (
    O_APPEND,
    O_CREAT,
    O_DIRECTORY,
    O_EXCL,
    O_NOFOLLOW,
    O_PATH,
    O_RDWR,
    O_TMPFILE,
    O_TRUNC,
    O_WRONLY,
    W_OK,
    strerror,
)
from stat import S_ISDIR, S_ISLNK, S_ISREG

from stepscope.tune.guard import raw
from stepscope.tune.guard.paths import lexists

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from stepscope.tune.guard.copying import Copying
    from stepscope.tune.guard.paths import AnyPath, Spot, View

__all__ = ["Opening"]

_WRITING = O_WRONLY | O_RDWR | O_CREAT | O_TRUNC | O_APPEND
_NOT_PLAIN = _WRITING | O_PATH | O_DIRECTORY | O_NOFOLLOW  # not just to be read
_FILE_MODE = 0o666  # what open() gives a new file, less the umask


class Opening:
    """os.open, open and io.FileIO of the merged view."""

    def __init__(self, view: View, copying: Copying) -> None:
        self._view, self._copying = view, copying
        self.file_io = _file_io(self._opener)

    def open_descriptor(
        self, path: AnyPath, flags: int, mode: int = 0o777, *, dir_fd: int | None = None
    ) -> int:
        """os.open."""
        if not flags & _NOT_PLAIN:
            try:
                near = self._view.find(path, dir_fd, follow=False).real
                return raw.open(near, flags | O_NOFOLLOW)
            except OSError as error:
                if error.errno != ELOOP:  # a link
                    raise
        return raw.open(self.place(path, flags, dir_fd), flags, mode)

    def open(
        self,
        file: Any,
        mode: str = "r",
        buffering: int = -1,
        encoding: str | None = None,
        errors: str | None = None,
        newline: str | None = None,
        closefd: bool = True,
        opener: Callable[[str, int], int] | None = None,
    ) -> Any:
        """Python's open, whose files keep the names that the program gave them."""
        if opener is None and not isinstance(file, int):
            opener = self._opener
        return raw.open_file(file, mode, buffering, encoding, errors, newline, closefd, opener)

    def place(self, path: AnyPath, flags: int, dir_fd: int | None = None) -> str:
        """Where to open a file with these flags: made ready there, if it is for writing."""
        exclusive = bool(flags & O_CREAT and flags & O_EXCL)
        follow = not (flags & O_NOFOLLOW or exclusive)
        spot = self._view.find(path, dir_fd, follow=follow)
        if spot.through or not flags & _WRITING:
            return spot.real
        if flags & O_TMPFILE == O_TMPFILE:
            return self._copying.bring(spot)
        if not lexists(spot.real):
            # Without O_CREAT the system says that there is none.
            return self._copying.room(spot) if flags & O_CREAT else spot.upper
        if exclusive:
            raise FileExistsError(EEXIST, strerror(EEXIST), spot.path)
        return self._existing(spot, flags)

    def _existing(self, spot: Spot, flags: int) -> str:
        kind = raw.lstat(spot.real).st_mode
        if spot.changed or S_ISDIR(kind) or S_ISLNK(kind):
            return spot.real  # a folder or a link: the system says what is wrong with that
        if not S_ISREG(kind):
            raise PermissionError(
                EACCES, "Trials of stepscope write to no devices, pipes or sockets", spot.path
            )
        if not raw.access(spot.path, W_OK):
            raise PermissionError(EACCES, strerror(EACCES), spot.path)
        return self._copying.bring(spot, empty=bool(flags & O_TRUNC))

    def _opener(self, path: str, flags: int) -> int:
        return self.open_descriptor(path, flags, _FILE_MODE)


def _file_io(opener: Callable[[str, int], int]) -> type[_io.FileIO]:
    """A class in place of io.FileIO; the files that open() makes count as its instances."""
    original = _io.FileIO

    class Kind(ABCMeta):
        def __instancecheck__(cls, instance: object) -> bool:
            known = original if cls is FileIO else None
            return isinstance(instance, known) if known else super().__instancecheck__(instance)

        def __subclasscheck__(cls, subclass: type) -> bool:
            known = original if cls is FileIO else None
            return issubclass(subclass, known) if known else super().__subclasscheck__(subclass)

    class FileIO(original, metaclass=Kind):  # type: ignore[misc, valid-type]
        __doc__ = original.__doc__
        __module__ = original.__module__

        def __init__(
            self,
            file: Any,
            mode: str = "r",
            closefd: bool = True,
            opener_: Any = None,
            **named: Any,
        ) -> None:
            given = named.pop("opener", opener_)
            if given is None and not isinstance(file, int):
                given = opener
            super().__init__(file, mode, closefd, given, **named)

    return FileIO
