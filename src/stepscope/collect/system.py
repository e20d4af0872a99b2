"""The host and the processes of a run → samples, from a thread of its own."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from typing import Protocol

from stepscope.collect.gpu import find_gpus
from stepscope.record.recorder import Recorder

__all__ = ["Source", "SystemCollector", "system_sources"]


class Source(Protocol):
    """Something that can be looked at now and then. Absence is an object that samples nothing."""

    def sample(self, recorder: Recorder) -> None: ...
    def close(self) -> None: ...


class SystemCollector:
    """Samples the host and the tree of processes below `pid`, every `interval_s`."""

    name = "system"

    def __init__(
        self, pid: int, interval_s: float, sources: Sequence[Source] | None = None
    ) -> None:
        self._pid = pid
        self._interval_s = interval_s
        self._sources = sources
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self, recorder: Recorder) -> None:
        if self._thread is not None:
            return
        self._stop.clear()
        self._thread = threading.Thread(
            target=self._run, args=(recorder,), name="stepscope-system", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """Take a last sample and end."""
        thread, self._thread = self._thread, None
        if thread is not None:
            self._stop.set()
            thread.join()

    def _run(self, recorder: Recorder) -> None:
        sources = system_sources(self._pid) if self._sources is None else self._sources
        stopped = False
        while not stopped:
            self._sample(sources, recorder)
            stopped = self._stop.wait(self._interval_s)
        self._sample(sources, recorder)
        for source in sources:
            source.close()

    def _sample(self, sources: Sequence[Source], recorder: Recorder) -> None:
        for source in sources:
            try:
                source.sample(recorder)
            except Exception as error:  # noqa: BLE001 - one bad source must not silence the others
                recorder.failed(f"sampling {type(source).__name__}", error)


def system_sources(pid: int) -> Sequence[Source]:
    """What can be sampled on this machine."""
    if os.path.exists("/proc/self/stat"):  # noqa: PTH110
        from stepscope.collect.host import Host
        from stepscope.collect.process_tree import ProcessTree

        return (Host(pid), ProcessTree(pid), find_gpus())
    from stepscope.collect.portable import PortableHost, PortableTree

    return (PortableHost(), PortableTree(pid), find_gpus())
