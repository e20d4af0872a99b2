"""Memory of this process → samples, cheaply enough to look many times a second."""

from __future__ import annotations

import os
import time
import tracemalloc

from stepscope.collect.proc import KeptFile
from stepscope.model import names
from stepscope.record.recorder import Recorder

__all__ = ["OwnMemory", "OwnProcess", "PythonHeap", "rss_bytes"]

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


def rss_bytes() -> int | None:
    """What this process holds of the machine's memory now; None: it cannot be read."""
    file = KeptFile("/proc/self/statm")
    text = file.read(128)
    file.close()
    if text:
        return int(text.split()[1]) * _PAGE_BYTES
    import psutil

    try:
        return int(psutil.Process().memory_info().rss)
    except psutil.Error:
        return None


class OwnMemory:
    """What this process holds, and nothing else: a few microseconds a look."""

    def __init__(self) -> None:
        self._statm = KeptFile("/proc/self/statm")
        self._pid = os.getpid()

    def sample(self, recorder: Recorder) -> None:
        text = self._statm.read(128)
        if text:
            name = recorder.intern(names.PROCESS_RSS_BYTES)
            recorder.sample(name, float(int(text.split()[1]) * _PAGE_BYTES), self._pid)

    def close(self) -> None:
        self._statm.close()


class OwnProcess(OwnMemory):
    """What this process holds and what CPU time it took: two system calls a look."""

    def sample(self, recorder: Recorder) -> None:
        super().sample(recorder)
        name = recorder.intern(names.PROCESS_CPU_NS)
        recorder.sample(name, float(time.process_time_ns()), self._pid)


class PythonHeap:
    """The most that Python objects took since the last look, where tracemalloc is on."""

    def sample(self, recorder: Recorder) -> None:
        if tracemalloc.is_tracing():
            _, peak_bytes = tracemalloc.get_traced_memory()
            tracemalloc.reset_peak()
            recorder.sample(recorder.intern(names.PYTHON_PEAK_BYTES), float(peak_bytes))

    def close(self) -> None:
        """Whoever started tracemalloc stops it."""
