"""Logs are written when there is something to write: not line by line, flush by flush."""

from __future__ import annotations

import atexit
import builtins
import io
import os
import stat
import time
from collections import Counter
from collections.abc import Callable
from typing import Any, ClassVar, Final

from stepscope.collect.chain import hiding
from stepscope.tune.doors import Doors, is_ours
from stepscope.tune.injection import Injection, users_site
from stepscope.tune.late_files import LateBuffer, LateFiles, Opening

__all__ = ["Logging"]

_OPENED_OFTEN: Final = 3  # times, for appending: then it is kept open
_MODES: Final = ("a", "w", "x", "at", "wt", "xt")


class Logging(Injection):
    """settings: {"seconds": 1.0}. What is in the files at the end stays the same.

    Text files that the program writes are flushed, and synced to the disk, at most so often; those
    that it opens again and again to append a line stay open. Who looks at such a file, in this
    process or in one that it starts, sees every line. Lines of the last second are lost where the
    process is killed or crashes in C.

    Other files (binary ones, those opened before this was installed) are written as the program
    writes them. Only their syncs wait, from the second one on: a file that is synced once, before
    it is closed or renamed, has to be on the disk by then.
    """

    name: ClassVar[str] = "logging"
    clock: Callable[[], float] = staticmethod(time.monotonic)

    def install(self) -> None:
        self._seconds = float(self.settings.get("seconds", 1.0))
        self._files = LateFiles(self._seconds, self.clock, os.fsync)
        self._files.noticed = self._noticed
        self._files.failed = lambda error: self.told.failed("syncing a file", error)
        self._lstat = os.lstat
        self._opened: Counter[str] = Counter()
        self._doors = Doors(self.patches, lambda: bool(self._files.waiting), self._files.do)
        self._doors.install()
        opening = self._opening(builtins.open)
        for owner in (builtins, io):
            self.patches.put(owner, "open", opening)
        for name in ("fsync", "fdatasync"):
            self.patches.replace(os, name, self._syncing)
        atexit.register(self.finish)

    def _noticed(self, participle: str) -> None:
        self.told.applied(f"{participle} at most every {self._seconds:g} s", users_site())

    def _opening(self, opens: Callable[..., Any]) -> Callable[..., Any]:
        def wrapper(
            file: Any, mode: Any = "r", buffering: Any = -1, encoding: Any = None,
            errors: Any = None, newline: Any = None, closefd: Any = True, opener: Any = None,
        ) -> Any:  # fmt: skip
            late = None
            if mode in _MODES and not is_ours() and opener is None and buffering != 0:
                path = self._path(file)
                late = None if path is None else self._late(path, opens, file, mode)
            if late is None:
                plain = opens(file, mode, buffering, encoding, errors, newline, closefd, opener)
                self._files.opened(plain.fileno())
                return plain
            try:
                text = io.TextIOWrapper(late, encoding, errors, newline, buffering == 1)
            except BaseException:
                late.close()
                raise
            text.mode = mode  # type: ignore[misc]
            return text

        return hiding(opens, wrapper)

    def _path(self, file: Any) -> str | None:
        """None: it is no plain file."""
        if not isinstance(file, (str, bytes, os.PathLike)) or not self._files.seconds:
            return None
        try:
            if not stat.S_ISREG(self._lstat(file).st_mode):
                return None
        except FileNotFoundError:
            pass
        except (OSError, ValueError):
            return None
        return os.path.abspath(os.fsdecode(file))  # noqa: PTH100

    def _late(self, path: str, opens: Callable[..., Any], file: Any, mode: str) -> Any:
        """What the text is written into; None: as the program has it."""
        kept = self._files.kept.get(path)
        if kept is not None:
            if mode[0] == "a" and kept.is_still_at_its_path():
                return Opening(kept, os.fspath(file))
            self._files.kept.pop(path).close()
        others = self._files.late_at(path)
        if others:
            for one in others:  # two that write take turns as they did
                one.is_prompt = True
                one.do()
            return None
        late = LateBuffer(opens(file, mode[0] + "b", 0), path, self._files)
        self._opened[path] += mode[0] == "a"
        if self._opened[path] < _OPENED_OFTEN:
            return late
        self._files.keep(late)
        self.told.applied("kept open between open() calls", users_site())
        return Opening(late, os.fspath(file))

    def _syncing(self, sync: Callable[[Any], None]) -> Callable[..., None]:
        def wrapper(fd: Any) -> None:
            number = fd if isinstance(fd, int) else getattr(fd, "fileno", lambda: -1)()
            if is_ours() or not self._files.sync(number):
                sync(fd)

        return hiding(sync, wrapper)

    def stepped(self, optimizer: Any) -> None:
        self._files.do_due()

    def finish(self) -> None:
        self._files.finish()

    def undo(self) -> None:
        self.finish()
        self._doors.undo()
        super().undo()
        atexit.unregister(self.finish)
