"""The host and the processes of a run → samples, from a thread of its own."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from typing import Protocol

from stepscope.collect.gpu import find_gpus
from stepscope.record.recorder import Recorder

__all__ = ["Source", "SystemCollector", "system_sources"]


class Source(Protocol):
    """Something that can be looked at now and then. Absence is an object that samples nothing."""

    def sample(self, recorder: Recorder) -> None: ...
    def close(self) -> None: ...


class SystemCollector:
    """Samples the host and the tree of processes below `pid`, every `interval_s`.

    keep_going: asked after each sample; the thread ends when there is no reason to go on, and
    `start` starts it again.
    """

    name = "system"

    def __init__(
        self,
        pid: int,
        interval_s: float,
        sources: Sequence[Source] | None = None,
        keep_going: Callable[[], bool] = lambda: True,
    ) -> None:
        self.interval_s = interval_s
        self._pid = pid
        self._sources = sources
        self._keep_going = keep_going
        self._stop = threading.Event()
        self._starting, self._sampling = threading.Lock(), threading.Lock()
        self._thread: threading.Thread | None = None
        self._recorder: Recorder | None = None

    @property
    def is_running(self) -> bool:
        return self._thread is not None

    def start(self, recorder: Recorder) -> None:
        with self._starting:
            if self._thread is not None:
                return
            self._recorder = recorder
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
        recorder, self._recorder = self._recorder, None
        if recorder is not None:
            self.look(recorder)
            for source in self._sources or ():
                source.close()

    def look(self, recorder: Recorder) -> None:
        """Sample now, in the thread that asks; nothing if somebody is sampling at this moment."""
        if not self._sampling.acquire(blocking=False):
            return
        try:
            if self._sources is None:
                self._sources = system_sources(self._pid)
            for source in self._sources:
                try:
                    source.sample(recorder)
                except Exception as error:  # noqa: BLE001 - the others are not to be silenced
                    recorder.failed(f"sampling {type(source).__name__}", error)
        finally:
            self._sampling.release()

    def _run(self, recorder: Recorder) -> None:
        while True:
            self.look(recorder)
            if self._stop.wait(self.interval_s):
                return
            if not self._keep_going():
                self._thread = None
                return


def system_sources(pid: int) -> Sequence[Source]:
    """What can be sampled on this machine."""
    if os.path.exists("/proc/self/stat"):  # noqa: PTH110
        from stepscope.collect.host import Host
        from stepscope.collect.process_tree import ProcessTree

        return (Host(pid), ProcessTree(pid), find_gpus())
    from stepscope.collect.portable import PortableHost, PortableTree

    return (PortableHost(), PortableTree(pid), find_gpus())
