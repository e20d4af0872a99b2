"""Where a path of the program leads: to the original, or to what the program made of it.

The original at /a/b has its changed version at SCRATCH/files/a/b. A path is found by walking its
folders and links in this merged view, so that two names of one file meet in one place.
"""

from __future__ import annotations

from errno import ELOOP, ENOENT
from os import F_OK, fsdecode, strerror
from posixpath import dirname, join

from stepscope.tune.guard import raw
from stepscope.tune.guard.gone import Gone

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from os import PathLike
    from typing import TypeAlias

    AnyPath: TypeAlias = str | bytes | PathLike[str] | PathLike[bytes]

__all__ = ["Spot", "View", "lexists", "path_of"]

_MOST_LINKS = 40  # the kernel's own limit
_MOST_FOLDERS = 20_000  # whose place is remembered


class Spot:
    """A path in the merged view.

    path: absolute, without links in its folders. real: where to read it now. upper: where its
    changed version lies or would. through: in a folder that the program may write to as it is.
    """

    __slots__ = ("path", "real", "through", "upper")

    def __init__(self, path: str, real: str, upper: str, through: bool) -> None:
        self.path, self.real, self.upper, self.through = path, real, upper, through

    @property
    def changed(self) -> bool:
        """It was made, changed or removed by the program: the original is out of sight."""
        return self.real == self.upper


class View:
    """The files as the program sees them.

    scratch, allowed: absolute folders without links; below `allowed` nothing is redirected.
    """

    def __init__(self, scratch: str, allowed: Sequence[str]) -> None:
        self.scratch = scratch
        self.files = scratch + "/files"
        self._files_below = self.files + "/"
        self.gone = Gone(scratch + "/gone")
        self._through = tuple(folder.rstrip("/") + "/" for folder in (scratch, *allowed))
        # What is known until something changes: where folders are, and which were touched. A
        # thread that is still finding out puts it into the old ones, which nobody asks any more.
        self._read_bytes = 0
        self._folders: dict[str, str] = {}
        self._touched: dict[str, bool] = {}

    def find(self, path: AnyPath, dir_fd: int | None = None, *, follow: bool = True) -> Spot:
        """follow: where the last part is a link, what it leads to is meant."""
        read_bytes = self.gone.refresh()
        if read_bytes != self._read_bytes or len(self._folders) > _MOST_FOLDERS:
            self._folders, self._touched = {}, {}
            self._read_bytes = read_bytes
        place = self._in_folder(self._absolute(path, dir_fd))
        return self.spot(self._followed(place, 0) if follow else place)

    def spot(self, path: str) -> Spot:
        """path: absolute and without links in its folders already."""
        upper = self.files + path
        if (path + "/").startswith(self._through):
            return Spot(path, path, upper, True)
        hidden = self.is_touched(path[: path.rfind("/")] or "/") and self._is_hidden(path)
        return Spot(path, upper if hidden else path, upper, False)

    def is_touched(self, folder: str) -> bool:
        """The program changed something in a folder: only then its files are looked for twice."""
        known = self._touched
        touched = known.get(folder)
        if touched is None:
            twin = lexists(self.files + folder)
            touched = twin or self.gone.hides(folder) or bool(self.gone.inside(folder))
            known[folder] = touched
        return touched

    def original(self, spot: Spot) -> bool:
        """There is an original that was not removed, whether or not it was changed."""
        return not spot.through and not self.gone.hides(spot.path) and lexists(spot.path)

    def parent(self, spot: Spot) -> Spot:
        return self.spot(dirname(spot.path))

    def logical(self, path: str) -> str:
        """The program's name for a place in the scratch folder; others stay as they are."""
        inside = path.startswith(self._files_below) or path == self.files
        return path[len(self.files) :] or "/" if inside else path

    def current(self) -> str:
        """The working folder, as the program knows it."""
        return self.logical(raw.getcwd())

    def _is_hidden(self, path: str) -> bool:
        # The root has a twin from the start, which says nothing about it.
        return path != "/" and (lexists(self.files + path) or self.gone.hides(path))

    def _absolute(self, path: AnyPath, dir_fd: int | None) -> str:
        text = path if type(path) is str else fsdecode(path)
        if not text:
            raise FileNotFoundError(ENOENT, strerror(ENOENT), path)
        if text[0] != "/":
            text = join(self.current() if dir_fd is None else self.logical(path_of(dir_fd)), text)
        return self.logical(text)

    def _in_folder(self, path: str, links: int = 0) -> str:
        """Absolute, with every link in its folders followed; its last part stays what it is."""
        head, _, tail = path.rstrip("/").rpartition("/")
        if tail in ("", ".", ".."):
            return self._folder(path, links)
        folder = self._folder(head, links)
        return f"{folder}/{tail}" if folder != "/" else f"/{tail}"

    def _folder(self, path: str, links: int) -> str:
        known = self._folders
        place = known.get(path)
        if place is None:
            place = known[path] = self._walk(path, links)
        return place

    def _walk(self, path: str, links: int) -> str:
        head, _, tail = path.rstrip("/").rpartition("/")
        if not head and not tail:
            return "/"
        folder = self._folder(head, links)
        if tail in ("", "."):
            return folder
        if tail == "..":
            raw.stat(self.spot(folder).real + "/.")  # raises where there is no such folder
            return dirname(folder)
        return self._followed(join(folder, tail), links)

    def _followed(self, path: str, links: int) -> str:
        # What links below /proc lead to is known to the kernel alone (pipes, removed files).
        while not path.startswith("/proc/"):
            try:
                target = raw.readlink(self.spot(path).real)
            except OSError:  # no link
                return path
            links += 1
            if links > _MOST_LINKS:
                raise OSError(ELOOP, strerror(ELOOP), path)
            path = self._in_folder(join(dirname(path), target), links)
        return path


def lexists(path: str) -> bool:
    """Something is really there, be it a link that leads nowhere."""
    return raw.access(path, F_OK, follow_symlinks=False)


def path_of(descriptor: int) -> str:
    """The path of an open file; no absolute one where it is a pipe, a socket or the like."""
    return raw.readlink(f"/proc/self/fd/{descriptor}")
