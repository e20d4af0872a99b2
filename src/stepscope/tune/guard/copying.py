"""Brings originals into the scratch folder, where the program may change them."""

from __future__ import annotations

from _thread import get_ident
from errno import EACCES, ENOENT, ENOSPC, ENOTDIR
from os import (
    O_CLOEXEC,
    O_CREAT,
    O_EXCL,
    O_RDONLY,
    O_WRONLY,
    W_OK,
    X_OK,
    getpid,
    strerror,
)
from posixpath import join
from stat import S_IMODE, S_ISDIR, S_ISLNK, S_ISREG

from stepscope.tune.guard import raw
from stepscope.tune.guard.paths import lexists

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from collections.abc import Callable

    from stepscope.tune.guard.listing import Listing
    from stepscope.tune.guard.paths import Spot, View

__all__ = ["Copying", "copy_file"]

_PIECE_BYTES = 1 << 30  # asked of the kernel at once
_BUFFER_BYTES = 1 << 20


class Copying:
    """Makes the changed versions of originals, and room for new files."""

    def __init__(self, view: View, listing: Listing) -> None:
        self._view, self._listing = view, listing

    def room(self, spot: Spot) -> str:
        """Have the folder of a new file in the scratch folder; gives the file's place there.

        Raises what the system would: there is no such folder, or nobody may write to it.
        """
        folder = self._view.parent(spot)
        if folder.through:
            return spot.path
        if not S_ISDIR(raw.stat(folder.real).st_mode):
            raise NotADirectoryError(ENOTDIR, strerror(ENOTDIR), spot.path)
        if not raw.access(folder.real, W_OK | X_OK):
            raise PermissionError(EACCES, strerror(EACCES), spot.path)
        self._twin_folder(folder)
        return spot.upper

    def bring(self, spot: Spot, *, empty: bool = False) -> str:
        """Have an existing file, link or folder (without what is in it) in the scratch folder.

        empty: the program is about to truncate it, so its content is not copied.
        """
        if lexists(spot.upper):
            return spot.upper
        if spot.changed:
            raise FileNotFoundError(ENOENT, strerror(ENOENT), spot.path)
        state = raw.lstat(spot.path)
        if S_ISDIR(state.st_mode):
            self._twin_folder(spot)
            return spot.upper
        self._twin_folder(self._view.parent(spot))
        if S_ISLNK(state.st_mode):
            _unless_there(lambda: raw.symlink(raw.readlink(spot.path), spot.upper))
        elif S_ISREG(state.st_mode):
            self._twin_file(spot, state, empty=empty)
        else:
            raise PermissionError(
                EACCES, "Trials of stepscope change no devices, pipes or sockets", spot.path
            )
        return spot.upper

    def bring_all(self, spot: Spot) -> str:
        """bring, and everything below it."""
        self.bring(spot)
        if S_ISDIR(raw.lstat(spot.upper).st_mode):
            for name in self._listing.names(spot):
                self.bring_all(self._view.spot(join(spot.path, name)))
        return spot.upper

    def _twin_folder(self, spot: Spot) -> None:
        if lexists(spot.upper):
            return
        self._twin_folder(self._view.parent(spot))
        mode = S_IMODE(raw.stat(spot.path).st_mode)
        _unless_there(lambda: raw.mkdir(spot.upper))
        raw.chmod(spot.upper, mode)
        self._view.gone.tell_changed()

    def _twin_file(self, spot: Spot, state: os.stat_result, *, empty: bool) -> None:
        self._must_fit(spot, 0 if empty else state.st_size)
        # Under another name first: a process that looks meanwhile finds all of it or none.
        new = f"{self._view.scratch}/copying-{getpid()}-{get_ident()}"
        try:
            copy_file(spot.path, new, state, empty=empty)
            _unless_there(lambda: raw.link(new, spot.upper))
        finally:
            raw.unlink(new)

    def _must_fit(self, spot: Spot, size_bytes: int) -> None:
        room = raw.statvfs(self._view.scratch)
        if size_bytes > room.f_bavail * room.f_frsize // 2:
            raise OSError(
                ENOSPC, "A trial of stepscope has no room for a copy to change", spot.path
            )


def _unless_there(make: Callable[[], None]) -> None:
    """Another process of the program may have been first."""
    try:
        make()
    except FileExistsError:
        pass


def copy_file(source: str, target: str, state: os.stat_result, *, empty: bool = False) -> None:
    """A new file with the content, mode and times of another."""
    flags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC
    writing = raw.open(target, flags, 0o600)
    try:
        if not empty:
            reading = raw.open(source, O_RDONLY | O_CLOEXEC)
            try:
                _copy_content(reading, writing)
            finally:
                raw.close(reading)
    finally:
        raw.close(writing)
    raw.chmod(target, S_IMODE(state.st_mode))
    raw.utime(target, ns=(state.st_atime_ns, state.st_mtime_ns))


def _copy_content(reading: int, writing: int) -> None:
    try:
        while raw.copy_file_range(reading, writing, _PIECE_BYTES):
            pass
    except OSError:  # between these file systems the kernel cannot
        pass
    while piece := raw.read(reading, _BUFFER_BYTES):
        while piece:
            piece = piece[raw.write(writing, piece) :]
