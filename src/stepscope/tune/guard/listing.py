"""What is in a folder, as the program sees it: originals that are left, and what it made itself."""

from __future__ import annotations

from os import fsdecode, fsencode, fspath
from posixpath import basename, dirname, join
from stat import S_ISDIR, S_ISLNK, S_ISREG

from stepscope.tune.guard import raw
from stepscope.tune.guard.paths import lexists, path_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from collections.abc import Iterator
    from typing import Any, TypeAlias

    from stepscope.tune.guard.paths import AnyPath, Spot, View

    Folder: TypeAlias = AnyPath | int | None

__all__ = ["Entries", "Entry", "Listing"]


class Listing:
    """os.listdir and os.scandir of the merged view."""

    def __init__(self, view: View) -> None:
        self._view = view

    def names(self, spot: Spot) -> list[str]:
        """Of everything in a folder. Raises what the system would where it is none."""
        if self._is_untouched(spot):
            return raw.listdir(spot.real)
        names = raw.listdir(spot.upper) if lexists(spot.upper) else []
        if self._view.original(spot):
            away = {*names, *self._away(spot)}
            names += [name for name in raw.listdir(spot.path) if name not in away]
        elif not lexists(spot.upper):
            return raw.listdir(spot.upper)  # raises: there is none
        return names

    def listdir(self, path: Folder = None) -> list[Any]:
        found = self.names(self._find(path))
        return [fsencode(name) for name in found] if _is_bytes(path) else found

    def scandir(self, path: Folder = None) -> Any:
        spot = self._find(path)
        if self._is_untouched(spot):
            try:
                return raw.scandir(path)
            except FileNotFoundError:
                pass  # the way there is a link of the program's making
        shown = "" if isinstance(path, int) else "." if path is None else fspath(path)
        return Entries(self._view, spot, shown, self.names(spot))

    def _find(self, path: Folder) -> Spot:
        return self._view.find(path_of(path) if isinstance(path, int) else path or ".")

    def _is_untouched(self, spot: Spot) -> bool:
        if spot.through:
            return True
        return not self._view.is_touched(spot.path) and spot.path != dirname(self._view.scratch)

    def _away(self, spot: Spot) -> set[str]:
        """Names that are not shown: removed ones, and the scratch folder itself."""
        away = self._view.gone.inside(spot.path)
        scratch = self._view.scratch
        return away | {basename(scratch)} if dirname(scratch) == spot.path else away


class Entries:
    """What os.scandir gives: an iterator that can be closed."""

    def __init__(self, view: View, spot: Spot, shown: str | bytes, names: list[str]) -> None:
        self._left = (Entry(view, join(spot.path, name), shown, name) for name in names)

    def __iter__(self) -> Iterator[Entry]:
        return self

    def __next__(self) -> Entry:
        return next(self._left)

    def __enter__(self) -> Entries:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._left.close()


class Entry:
    """os.DirEntry, which cannot be made by hand.

    full: the path in the merged view. shown: the folder as the program named it.
    """

    def __init__(self, view: View, full: str, shown: str | bytes, name: str) -> None:
        self._view, self._full = view, full
        path = join(fsdecode(shown), name) if shown else name
        is_bytes = isinstance(shown, bytes)
        self.name = fsencode(name) if is_bytes else name
        self.path = fsencode(path) if is_bytes else path

    def __fspath__(self) -> str | bytes:
        return self.path

    def __repr__(self) -> str:
        return f"<DirEntry {fsdecode(self.name)!r}>"

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        spot = self._view.find(self._full, follow=follow_symlinks)
        return raw.stat(spot.real, follow_symlinks=follow_symlinks)

    def inode(self) -> int:
        return self.stat(follow_symlinks=False).st_ino

    def is_dir(self, *, follow_symlinks: bool = True) -> bool:
        return S_ISDIR(self._mode(follow_symlinks=follow_symlinks))

    def is_file(self, *, follow_symlinks: bool = True) -> bool:
        return S_ISREG(self._mode(follow_symlinks=follow_symlinks))

    def is_symlink(self) -> bool:
        return S_ISLNK(self._mode(follow_symlinks=False))

    def is_junction(self) -> bool:
        return False

    def _mode(self, *, follow_symlinks: bool) -> int:
        """0: it is gone, or a link that leads nowhere."""
        try:
            return self.stat(follow_symlinks=follow_symlinks).st_mode
        except FileNotFoundError:
            return 0


def _is_bytes(path: Folder) -> bool:
    return path is not None and not isinstance(path, int) and isinstance(fspath(path), bytes)
