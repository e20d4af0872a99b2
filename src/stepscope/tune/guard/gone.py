"""Which of the originals the program has removed: they are hidden from it, and still there.

A path that is gone stays gone: what is made there later lies in the scratch folder and is found
first. So the list only grows, one file that every process of the program appends to, and its size
tells whether there is news.
"""

from __future__ import annotations

from os import O_APPEND, O_CLOEXEC, O_CREAT, O_WRONLY, fsdecode, fsencode

from stepscope.tune.guard import raw

__all__ = ["Gone"]

_APPENDING = O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC
_CHANGED = b""  # an empty entry: nothing is gone, but folders or links were made or moved


class Gone:
    """The paths that are hidden, with everything below them.

    path: the list's file; entries end with a zero byte.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._gone: set[str] = set()
        self._inside: dict[str, set[str]] = {}
        self._read_bytes = 0
        raw.close(raw.open(path, _APPENDING, 0o644))  # it is there from the start

    def refresh(self) -> int:
        """Take over what other processes added; gives how far the list was read, in bytes.

        As long as that stays the same, no folder and no link was made, moved or removed.
        """
        known_bytes = self._read_bytes
        if raw.stat(self._path).st_size == known_bytes:
            return known_bytes
        with raw.open_file(self._path, "rb") as file:
            file.seek(known_bytes)
            news = file.read()
        whole = news[: news.rfind(b"\0") + 1]
        for entry in whole.split(b"\0"):
            if entry != _CHANGED:
                self._take(fsdecode(entry))
        # Last, and without a lock: a thread that reads the same entries too does no harm.
        self._read_bytes = known_bytes + len(whole)
        return self._read_bytes

    def add(self, path: str) -> None:
        """Hide an original, for every process of the program."""
        if path not in self._gone:
            self._append(fsencode(path))
            self._take(path)

    def tell_changed(self) -> None:
        """Have every process find out anew where its folders are. To be called after a folder or
        link was made in the scratch folder, and before anything in it can be looked for."""
        self._append(_CHANGED)

    def hides(self, path: str) -> bool:
        """Whether it or a folder above it is gone."""
        if not self._gone:
            return False
        while path:
            if path in self._gone:
                return True
            path = path[: path.rfind("/")]
        return False

    def inside(self, folder: str) -> set[str]:
        """Names in a folder that are gone themselves."""
        return self._inside.get(folder, set())

    def _take(self, path: str) -> None:
        self._gone.add(path)
        folder, _, name = path.rpartition("/")
        self._inside.setdefault(folder or "/", set()).add(name)

    def _append(self, entry: bytes) -> None:
        # One write: entries of several processes do not mix.
        descriptor = raw.open(self._path, _APPENDING, 0o644)
        try:
            raw.write(descriptor, entry + b"\0")
        finally:
            raw.close(descriptor)
