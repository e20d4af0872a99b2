"""What the kernel counted for a thread between two moments: waiting for a CPU, and reading."""

from __future__ import annotations

import os
import threading
from typing import NamedTuple

from stepscope.collect.proc import KeptFile

__all__ = ["ThreadUse", "use_of_this_thread"]


class ThreadUse(NamedTuple):
    """Cumulative; -1: this kernel does not tell."""

    run_delay_ns: int = -1
    read_bytes: int = -1  # from a disk
    read_chars: int = -1  # by read(), cached or not

    def since(self, earlier: ThreadUse) -> ThreadUse:
        """What was added; -1 where either is not known."""
        pairs = zip(self, earlier, strict=True)
        return ThreadUse(*(now - then if then >= 0 <= now else -1 for now, then in pairs))


class _Files:
    """Kept open for one thread of one process: a forked child's are its parent's."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self._schedstat = KeptFile("/proc/thread-self/schedstat")
        self._io = KeptFile("/proc/thread-self/io")

    def read(self) -> ThreadUse:
        delay_ns = read_bytes = read_chars = -1
        found = self._schedstat.read(128)
        if found:
            delay_ns = int(found.split(None, 2)[1])
        found = self._io.read(512)
        if found:
            words = found.split()  # rchar: n wchar: n syscr: n syscw: n read_bytes: n …
            read_chars, read_bytes = int(words[1]), int(words[9])
        return ThreadUse(delay_ns, read_bytes, read_chars)

    def __del__(self) -> None:
        self._schedstat.close()
        self._io.close()


_local = threading.local()


def use_of_this_thread() -> ThreadUse:
    files: _Files | None = getattr(_local, "files", None)
    if files is None or files.pid != os.getpid():
        files = _local.files = _Files()
    return files.read()
