"""What the kernel counts for a thread while it makes batches: waits for a CPU, reads, writes."""

from __future__ import annotations

import os
import resource
import threading
from typing import NamedTuple

from stepscope.collect.proc import KeptFile

__all__ = ["ThreadUse", "UseInBatches"]

_THREAD: int | None = getattr(resource, "RUSAGE_THREAD", None)  # of Linux alone


class ThreadUse(NamedTuple):
    """Cumulative; -1: this kernel does not tell."""

    run_delay_ns: int = -1
    read_bytes: int = -1  # from a disk
    read_chars: int = -1  # by read(), cached or not
    write_bytes: int = -1  # to a disk, sooner or later
    system_ns: int = -1  # CPU time in the kernel

    def since(self, earlier: ThreadUse) -> ThreadUse:
        """What was added; -1 where either is not known."""
        pairs = zip(self, earlier, strict=True)
        return ThreadUse(*(now - then if then >= 0 <= now else -1 for now, then in pairs))


class UseInBatches:
    """Of one thread of one process (a forked child's files are its parent's): what it used in the
    batches that were read, and how many these are."""

    def __init__(self) -> None:
        self._pid = os.getpid()
        self._schedstat = KeptFile("/proc/thread-self/schedstat")
        self._io = KeptFile("/proc/thread-self/io")
        self.batches = 0
        self.sums = [0] * len(ThreadUse._fields)  # in its order

    @classmethod
    def of_this_thread(cls) -> UseInBatches:
        """The one of this thread, whatever loaders it iterates."""
        found: UseInBatches | None = getattr(_local, "use", None)
        if found is None or found._pid != os.getpid():
            found = _local.use = cls()
        return found

    def now(self) -> ThreadUse:
        delay_ns = read_bytes = read_chars = write_bytes = -1
        told = self._schedstat.read(128)
        if told:
            delay_ns = int(told.split(None, 2)[1])
        told = self._io.read(512)
        if told:
            words = (
                told.split()
            )  # rchar: n wchar: n syscr: n syscw: n read_bytes: n write_bytes: n …
            read_chars, read_bytes, write_bytes = int(words[1]), int(words[9]), int(words[11])
        return ThreadUse(delay_ns, read_bytes, read_chars, write_bytes, _system_ns())

    def add(self, before: ThreadUse) -> ThreadUse:
        """A batch that began with `before` has ended; gives the sums, -1 where not known."""
        more = self.now().since(before)
        self.batches += 1
        self.sums = [a + max(b, 0) for a, b in zip(self.sums, more, strict=True)]
        pairs = zip(self.sums, more, strict=True)
        return ThreadUse(*(total if new >= 0 else -1 for total, new in pairs))

    def __del__(self) -> None:
        self._schedstat.close()
        self._io.close()


def _system_ns() -> int:
    if _THREAD is None:
        return -1
    return round(resource.getrusage(_THREAD).ru_stime * 1e9)


_local = threading.local()
