"""Making, moving and removing files and folders, all of it in the scratch folder."""

from __future__ import annotations

from errno import EEXIST, EINVAL, EISDIR, ENOTDIR, ENOTEMPTY, EXDEV
from os import getpid, strerror
from stat import S_ISDIR, S_ISLNK

from stepscope.tune.guard import raw
from stepscope.tune.guard.copying import copy_file
from stepscope.tune.guard.paths import lexists

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from stepscope.tune.guard.copying import Copying
    from stepscope.tune.guard.listing import Listing
    from stepscope.tune.guard.paths import AnyPath, Spot, View

__all__ = ["Changing"]


class Changing:
    """The calls of `os` that change which files there are, with their own signatures."""

    def __init__(self, view: View, listing: Listing, copying: Copying) -> None:
        self._view, self._listing, self._copying = view, listing, copying

    def mkdir(self, path: AnyPath, mode: int = 0o777, *, dir_fd: int | None = None) -> None:
        raw.mkdir(self._new(path, dir_fd), mode)
        self._view.gone.tell_changed()

    def mkfifo(self, path: AnyPath, mode: int = 0o666, *, dir_fd: int | None = None) -> None:
        raw.mkfifo(self._new(path, dir_fd), mode)

    def mknod(
        self, path: AnyPath, mode: int = 0o600, device: int = 0, *, dir_fd: int | None = None
    ) -> None:
        raw.mknod(self._new(path, dir_fd), mode, device)

    def symlink(
        self,
        src: AnyPath,
        dst: AnyPath,
        target_is_directory: bool = False,
        *,
        dir_fd: int | None = None,
    ) -> None:
        raw.symlink(src, self._new(dst, dir_fd))
        self._view.gone.tell_changed()

    def link(
        self,
        src: AnyPath,
        dst: AnyPath,
        *,
        src_dir_fd: int | None = None,
        dst_dir_fd: int | None = None,
        follow_symlinks: bool = True,  # not heeded: Linux links to the link itself either way
    ) -> None:
        old = self._view.find(src, src_dir_fd, follow=False)
        source = old.real if old.through else self._copying.bring(old)
        raw.link(source, self._new(dst, dst_dir_fd), follow_symlinks=False)
        self._view.gone.tell_changed()  # it may be to a link

    def remove(self, path: AnyPath, *, dir_fd: int | None = None) -> None:
        spot = self._view.find(path, dir_fd, follow=False)
        kind = raw.lstat(spot.real).st_mode
        if spot.through:
            raw.unlink(spot.real)
        elif S_ISDIR(kind):
            raise IsADirectoryError(EISDIR, strerror(EISDIR), path)
        else:
            self._take_away(spot, raw.unlink)
        if S_ISLNK(kind):
            self._view.gone.tell_changed()

    def rmdir(self, path: AnyPath, *, dir_fd: int | None = None) -> None:
        spot = self._view.find(path, dir_fd, follow=False)
        if spot.through:
            raw.rmdir(spot.real)
        elif not S_ISDIR(raw.lstat(spot.real).st_mode):
            raise NotADirectoryError(ENOTDIR, strerror(ENOTDIR), path)
        elif self._listing.names(spot):
            raise OSError(ENOTEMPTY, strerror(ENOTEMPTY), path)
        else:
            self._take_away(spot, raw.rmdir)
        self._view.gone.tell_changed()

    def rename(
        self,
        src: AnyPath,
        dst: AnyPath,
        *,
        src_dir_fd: int | None = None,
        dst_dir_fd: int | None = None,
    ) -> None:
        """os.rename and os.replace, which are one on this system."""
        old = self._view.find(src, src_dir_fd, follow=False)
        new = self._view.find(dst, dst_dir_fd, follow=False)
        if old.through and new.through:
            raw.rename(old.real, new.real)
        else:
            self._rename(old, new)
        self._view.gone.tell_changed()

    def _rename(self, old: Spot, new: Spot) -> None:
        is_folder = S_ISDIR(raw.lstat(old.real).st_mode)
        if old.path == new.path:
            return
        _must_not_nest(old.path, new.path)
        self._must_be_replaceable(new, by_folder=is_folder)
        target = new.real if new.through else self._copying.room(new)
        source = old.real if old.through else self._taken_up(old)
        self._hide(old)
        _move(source, target)
        # After it, so that the name always leads to something. What an original folder or link of
        # that name holds is not in the new one.
        self._hide(new)

    def _new(self, path: AnyPath, dir_fd: int | None) -> str:
        """Where to make something new."""
        spot = self._view.find(path, dir_fd, follow=False)
        if spot.through:
            return spot.real
        if lexists(spot.real):
            raise FileExistsError(EEXIST, strerror(EEXIST), path)
        return self._copying.room(spot)

    def _taken_up(self, spot: Spot) -> str:
        self._copying.room(spot)
        return self._copying.bring_all(spot)

    def _take_away(self, spot: Spot, call: Callable[[str], None]) -> None:
        self._copying.room(spot)  # raises where the user may not
        self._hide(spot)
        if lexists(spot.upper):
            call(spot.upper)

    def _hide(self, spot: Spot) -> None:
        # Before the changed version goes: at no moment the original shines through.
        if self._view.original(spot):
            self._view.gone.add(spot.path)

    def _must_be_replaceable(self, spot: Spot, *, by_folder: bool) -> None:
        if not lexists(spot.real):
            return
        is_folder = S_ISDIR(raw.lstat(spot.real).st_mode)
        wrong = 0
        if is_folder != by_folder:
            wrong = EISDIR if is_folder else ENOTDIR
        elif is_folder and self._listing.names(spot):
            wrong = ENOTEMPTY
        if wrong:
            raise OSError(wrong, strerror(wrong), spot.path)


def _must_not_nest(old: str, new: str) -> None:
    """Nothing moves into itself or takes the place of its own folder."""
    if new.startswith(old + "/"):
        raise OSError(EINVAL, strerror(EINVAL), old)
    if old.startswith(new + "/"):
        raise OSError(ENOTEMPTY, strerror(ENOTEMPTY), new)


def _move(source: str, target: str) -> None:
    """Also between file systems: the scratch folder may lie on another one than the original."""
    try:
        return raw.rename(source, target)
    except OSError as error:
        state = raw.lstat(source)
        if error.errno != EXDEV or S_ISDIR(state.st_mode):
            raise
    new = f"{target}.{getpid()}.moving"
    copy_file(source, new, state)
    raw.rename(new, target)
    return raw.unlink(source)
