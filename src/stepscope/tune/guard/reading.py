"""Asking about files, and changing what is known of them (mode, times, owner)."""

from __future__ import annotations

import os
from os import fsencode, fspath
from stat import S_ISLNK

from stepscope.tune.guard import raw
from stepscope.tune.guard.paths import lexists, path_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from stepscope.tune.guard.copying import Copying
    from stepscope.tune.guard.paths import AnyPath, Spot, View

__all__ = ["MARKING", "READING", "Reading"]

READING = ("statvfs", "pathconf", "getxattr", "listxattr")
MARKING = ("chmod", "chown", "utime", "truncate", "setxattr", "removexattr")


class Reading:
    """The calls of `os` about one existing file."""

    def __init__(self, view: View, copying: Copying) -> None:
        self._view, self._copying = view, copying
        self._access = self.asking(raw.access)

    def asking(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """The same call, answered from the merged view."""
        return self._led(call, lambda spot: spot.real, lambda descriptor: descriptor)

    def marking(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """The same call, made on the changed version."""
        return self._led(call, self._changed, self._itself_or_path)

    def _led(
        self,
        call: Callable[..., Any],
        place: Callable[[Spot], str],
        opened: Callable[[int], int | str],
    ) -> Callable[..., Any]:
        """The same call, made on the place of a path. opened: what stands for an open file, itself
        or its path."""

        def led(
            path: AnyPath | int,
            *args: Any,
            dir_fd: int | None = None,
            follow_symlinks: bool = True,
            **named: Any,
        ) -> Any:
            if not follow_symlinks:
                named["follow_symlinks"] = False
            if isinstance(path, int):
                path = opened(path)
            if isinstance(path, int):
                return call(path, *args, **named)
            spot = self._view.find(path, dir_fd, follow=follow_symlinks)
            return call(place(spot), *args, **named)

        return led

    def _changed(self, spot: Spot) -> str:
        return spot.real if spot.through else self._copying.bring(spot)

    def _itself_or_path(self, descriptor: int) -> int | str:
        """The path of an original, which has to be led to its changed version."""
        return descriptor if self._is_its_own(descriptor) else path_of(descriptor)

    def marking_link(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """marking, of a link itself."""
        mark = self.marking(call)
        return lambda path, *args: mark(path, *args, follow_symlinks=False)

    def stat(
        self, path: AnyPath | int, *, dir_fd: int | None = None, follow_symlinks: bool = True
    ) -> os.stat_result:
        if isinstance(path, int):
            return raw.stat(path)
        result = raw.lstat(self._view.find(path, dir_fd, follow=False).real)
        if follow_symlinks and S_ISLNK(result.st_mode):
            return raw.stat(self._view.find(path, dir_fd).real)
        return result

    def access(self, path: AnyPath | int, mode: int, **named: Any) -> bool:
        try:
            return bool(self._access(path, mode, **named))
        except OSError:  # there is no such place
            return False

    def lstat(self, path: AnyPath, *, dir_fd: int | None = None) -> os.stat_result:
        return raw.lstat(self._view.find(path, dir_fd, follow=False).real)

    def readlink(self, path: AnyPath, *, dir_fd: int | None = None) -> str | bytes:
        target = raw.readlink(self._view.find(path, dir_fd, follow=False).real)
        return fsencode(target) if isinstance(fspath(path), bytes) else target

    def getcwd(self) -> str:
        return self._view.current()

    def getcwdb(self) -> bytes:
        return fsencode(self._view.current())

    def chdir(self, path: AnyPath | int) -> None:
        raw.chdir(path if isinstance(path, int) else self.standing(path))

    def standing(self, path: AnyPath) -> str:
        """The folder to go to: the original if there is one, as not only Python looks around."""
        spot = self._view.find(path)
        return spot.path if self._view.original(spot) else spot.real

    def _is_its_own(self, descriptor: int) -> bool:
        """An open file that is no original: in the scratch folder, a pipe, removed."""
        path = path_of(descriptor)
        return not lexists(path) or self._view.spot(path).through
