"""Memory and CPU time of this process → samples, cheaply enough to look many times a second."""

from __future__ import annotations

import os
import tracemalloc

from stepscope.collect.proc import KeptFile
from stepscope.model import names
from stepscope.record.recorder import Recorder

__all__ = ["OwnMemory", "PythonHeap", "rss_bytes", "watch_own_process", "watch_own_size"]

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_SIZE_INTERVAL_S = 0.025


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


def watch_own_process(recorder: Recorder, interval_s: float) -> None:
    """Have what this process holds and the CPU time that it took sampled that often, by the thread
    that writes: nothing cheaper looks many times a second for weeks. 0: no more."""
    rss = recorder.intern(names.PROCESS_RSS_BYTES)
    cpu = recorder.intern(names.PROCESS_CPU_NS)
    recorder.core.watch_process(rss, cpu, round(interval_s * 1e9))


def watch_own_size(recorder: Recorder) -> None:
    """The same where the launcher samples this process, too rarely for a leak in a short run. Under
    a name of its own: the samples of the two arrive at different times."""
    rss = recorder.intern(names.PROCESS_OWN_RSS_BYTES)
    recorder.core.watch_process(rss, 0, round(_SIZE_INTERVAL_S * 1e9))


class PythonHeap:
    """The most that Python objects took since tracemalloc's peak was reset, where it is on."""

    def sample(self, recorder: Recorder) -> None:
        if tracemalloc.is_tracing():
            _, peak_bytes = tracemalloc.get_traced_memory()
            recorder.sample(recorder.intern(names.PYTHON_PEAK_BYTES), float(peak_bytes))

    def close(self) -> None:
        """Whoever started tracemalloc stops it."""
