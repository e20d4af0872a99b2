"""Files whose lines reach the disk together: a flush or a sync waits for others to come."""

from __future__ import annotations

import io
import os
import stat
import threading
import warnings
from collections.abc import Callable
from typing import Any, Final

from stepscope.descriptor import Descriptor, RawFile, identity_of

__all__ = ["LateBuffer", "LateFiles", "LateSync", "Opening"]

_BUFFER_BYTES: Final = 1 << 16
MOST_KEPT: Final = 8  # files that stay open after they were closed


class LateFiles:
    """Those of a process. A flush is done when the last one is `seconds` ago, else it waits."""

    def __init__(
        self, seconds: float, clock: Callable[[], float], fsync: Callable[[int], None]
    ) -> None:
        self.seconds, self.clock, self.fsync = seconds, clock, fsync
        self.waiting: set[LateBuffer | LateSync] = set()
        self.by_descriptor: dict[int, LateBuffer] = {}
        self._synced: dict[int, LateSync] = {}  # files that the program has synced, by descriptor
        self.kept: dict[str, LateBuffer] = {}
        self.noticed: Callable[[str], None] = lambda _: None  # "flushed": that is what waits
        self.aside: Callable[[Callable[[], None]], None] = _in_a_thread
        self.failed: Callable[[BaseException], None] = lambda _: None  # a disk
        self._is_syncing = False

    def late_at(self, path: str) -> list[LateBuffer]:
        """Those that are open at a path."""
        return [one for one in self.by_descriptor.values() if one.path == path]

    def do(self, path: str | None = None) -> None:
        """What waits for a path or within a folder; None: everything."""
        for one in list(self.waiting):
            if path is None or one.path == path or one.path.startswith(path.rstrip("/") + "/"):
                one.do()

    def do_due(self) -> None:
        for one in list(self.waiting):
            if one.is_due:
                one.do()

    def sync(self, descriptor: int) -> bool:
        """The program wants a file on the disk. False: it has to wait for that. So it does for the
        first sync of a file that it opened as it is: one that is synced again is a log."""
        late = self.by_descriptor.get(descriptor)
        if late is not None and late.is_on(descriptor):
            late.sync()
            return True
        known = self._synced.get(descriptor)
        if self.seconds and known is not None and known.is_on(descriptor):
            known.sync()
            return True
        self._synced[descriptor] = LateSync(descriptor, self)
        return False

    def opened(self, descriptor: int) -> None:
        """The number stands for another file than before."""
        self._synced.pop(descriptor, None)

    def sync_aside(self, descriptor: int) -> bool:
        """Nobody has to wait for the disk. False: the last one is still at it."""
        if self._is_syncing:
            return False
        own = Descriptor(os.dup(descriptor))
        self._is_syncing = True

        def sync() -> None:
            try:
                self.fsync(own.fileno())
            except OSError as error:
                self.failed(error)
            finally:
                own.close()
                self._is_syncing = False

        self.aside(sync)
        return True

    def keep(self, late: LateBuffer) -> None:
        """Beyond the most, the one that was opened first is let go."""
        self.kept[late.path] = late
        while len(self.kept) > MOST_KEPT:
            self.kept.pop(next(iter(self.kept))).close()

    def finish(self) -> None:
        """From here on everything is done at once."""
        self.seconds = 0.0
        self.do()
        while self.kept:
            self.kept.popitem()[1].close()


def _in_a_thread(do: Callable[[], None]) -> None:
    threading.Thread(target=do, name="stepscope-logging", daemon=True).start()


class _LateFile(RawFile):
    """What the program flushed before it closed all descriptors still gets into the file, which is
    opened anew to append it."""

    def __init__(self, raw: Any, path: str) -> None:
        super().__init__(Descriptor(os.dup(raw.fileno())))
        self.name, self.mode, self._path = raw.name, raw.mode, path
        raw.close()

    def write(self, data: Any, /) -> int:
        if not self.file.is_ours:
            self.file = Descriptor.open(self._path, os.O_WRONLY | os.O_APPEND)
        return super().write(data)

    def _dealloc_warn(self, source: Any) -> None:
        """As io.FileIO: called by the buffer when the program has forgotten to close the file."""
        warnings.warn(f"unclosed file {source!r}", ResourceWarning, stacklevel=2, source=source)


class LateBuffer(io.BufferedWriter):
    """A buffer whose flush may wait. Closing, seeking and all else are as they were."""

    def __init__(self, raw: Any, path: str, files: LateFiles) -> None:
        self._file = _LateFile(raw, path)
        super().__init__(self._file, _BUFFER_BYTES)
        self.path, self._files = path, files
        self._descriptor = self._file.fileno()
        self._last_s = files.clock()
        self._wants_sync = False
        self._waited = 0  # flushes
        self.is_prompt = False  # somebody else writes to the file too: the order counts
        files.by_descriptor[self._descriptor] = self

    @property
    def is_due(self) -> bool:
        return self.is_prompt or self._files.clock() - self._last_s >= self._files.seconds

    def flush(self) -> None:
        if self.is_due:
            self.do()
            return
        self._files.waiting.add(self)
        self._waited += 1
        if self._waited == 2:  # one comes with every close
            self._files.noticed("flushed")

    def sync(self) -> None:
        """The program wants its file on the disk."""
        self._wants_sync = True
        self.flush()

    def do(self) -> None:
        super().flush()
        self._files.waiting.discard(self)
        self._last_s = self._files.clock()
        if not self._wants_sync:
            return
        if not self._file.file.is_ours:
            self._wants_sync = False
        elif self.is_prompt or not self._files.seconds:
            self._wants_sync = False
            self._files.fsync(self.fileno())
        elif self._files.sync_aside(self.fileno()):
            self._wants_sync = False
        else:
            self._files.waiting.add(self)

    def close(self) -> None:
        if not self.closed:
            self.is_prompt = True
            try:
                self.do()
            finally:
                if self._files.by_descriptor.get(self._descriptor) is self:
                    del self._files.by_descriptor[self._descriptor]
                super().close()

    def detach(self) -> Any:
        self.is_prompt = True
        self.do()
        self._files.by_descriptor.pop(self._descriptor, None)
        return super().detach()

    def is_on(self, descriptor: int) -> bool:
        """The program may have closed it and opened another file under its number."""
        return self._file.file.is_ours and self.fileno() == descriptor

    def is_still_at_its_path(self) -> bool:
        """Nobody has moved the file, or put another in its place."""
        try:
            there, ours = os.stat(self.path), os.fstat(self.fileno())  # noqa: PTH116
        except (OSError, ValueError):
            return False
        return os.path.samestat(there, ours)


class LateSync:
    """Syncs of a file that is no LateBuffer. What the program writes is in the file at once, for
    everybody to see; only the disk has it later."""

    path: Final = ""  # whoever looks at the file need not wait for this

    def __init__(self, descriptor: int, files: LateFiles) -> None:
        self._descriptor, self._files = descriptor, files
        self._opened = identity_of(descriptor)
        self._own: Descriptor | None = None  # while a sync waits: the program may close its file
        self._last_s = files.clock()
        self._waited = 0  # syncs

    @property
    def is_due(self) -> bool:
        return self._files.clock() - self._last_s >= self._files.seconds

    def is_on(self, descriptor: int) -> bool:
        """It is still the same file, and a plain one: syncing a folder is about its names."""
        found = identity_of(descriptor)
        return (
            found is not None
            and found == self._opened
            and stat.S_ISREG(os.fstat(descriptor).st_mode)
        )

    def sync(self) -> None:
        if self._own is None:
            self._own = Descriptor(os.dup(self._descriptor))
        self._files.waiting.add(self)
        self._waited += 1
        if self._waited == 1:
            self._files.noticed("synced")
        if self.is_due:
            self.do()

    def do(self) -> None:
        own = self._own
        if own is not None and own.is_ours:
            if not self._files.seconds:
                self._files.fsync(own.fileno())
            elif not self._files.sync_aside(own.fileno()):
                return  # it goes on waiting
            own.close()
        self._files.waiting.discard(self)
        self._own, self._last_s = None, self._files.clock()


class Opening(io.BufferedIOBase):
    """A file that the program opened for appending: it is closed, and what it wrote into is not."""

    def __init__(self, late: LateBuffer, name: Any) -> None:
        self._late = late
        self.name, self.mode = name, "ab"

    def write(self, data: Any, /) -> int:
        if self.closed:
            raise ValueError("write to closed file")
        return self._late.write(data)

    def flush(self) -> None:
        if not self.closed:
            self._late.flush()

    def close(self) -> None:
        if not self.closed:
            self._late.flush()  # what was written and closed is in the file, for who looks
            super().close()

    def fileno(self) -> int:
        return self._late.fileno()

    def isatty(self) -> bool:
        return False

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        return self._late.seek(offset, whence)

    def tell(self) -> int:
        return self._late.tell()

    def truncate(self, size: int | None = None, /) -> int:
        return self._late.truncate(size)

    @property
    def raw(self) -> Any:
        return self._late.raw
