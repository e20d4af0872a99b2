"""The host and the processes of a run → samples, from a thread of its own."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from typing import Protocol

from stepscope.collect.gpu import find_gpus
from stepscope.forks import Forks
from stepscope.record.recorder import Recorder
from stepscope.record.threads import join_fully

__all__ = ["Source", "SystemCollector", "system_sources"]

_GLANCE_S = 5.0  # between two glances at what is not this process


class Source(Protocol):
    """Something that can be looked at now and then. Absence is an object that samples nothing.

    One of which the most important part costs far less than all has a `glance(recorder)` too.
    """

    def sample(self, recorder: Recorder) -> None: ...
    def close(self) -> None: ...


class SystemCollector:
    """Samples the host and the tree of processes below `pid`, every `interval_s`.

    full_s: everything is sampled no more often than that. Between two such samples there are
    glances at what is cheap: for those who watch for days, and have the recorder look at this
    process itself (own_memory.watch_own_process).
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
        self.full_s = 0.0
        self._full_at_s = self._glance_at_s = float("-inf")
        self._pid = pid
        self._sources = sources
        self._keep_going = keep_going
        self._stop = _Stop()
        self._starting, self._sampling = threading.Lock(), threading.Lock()
        self._thread: threading.Thread | None = None
        self._recorder: Recorder | None = None
        self._paused = self._wanted = False

    @property
    def is_running(self) -> bool:
        return self._thread is not None

    def start(self, recorder: Recorder) -> None:
        with self._starting:
            if self._thread is not None:
                self._wanted = True  # it may be about to end
                return
            self._recorder = recorder
            self._begin(recorder)
            _forks.mind(self)

    def _begin(self, recorder: Recorder) -> None:
        self._wanted = False
        self._stop = _Stop()  # of this thread alone: the last one may not have seen its
        self._thread = threading.Thread(
            target=self._run, args=(recorder, self._stop), name="stepscope-system", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """Take a last sample and end."""
        self._end()
        recorder, self._recorder = self._recorder, None
        if recorder is not None:
            self.look(recorder)
            for source in self._sources or ():
                source.close()

    def hurry(self) -> None:
        """The interval is shorter than it was: do not wait for the end of the old one."""
        self._stop.nudge()

    def _end(self) -> bool:
        """Whether a thread ran, which is gone now."""
        thread, self._thread = self._thread, None
        if thread is None or thread is threading.current_thread():
            return False
        self._stop.set()
        join_fully(thread)
        return True

    def before_fork(self) -> None:
        """A fork finds no thread: from Python 3.12 on it warns of them."""
        self._paused = self._end() or self._paused

    def after_fork(self) -> None:
        """In the parent: go on."""
        paused, self._paused = self._paused, False
        if paused and self._recorder is not None:
            self._begin(self._recorder)

    def look(self, recorder: Recorder, wait_s: float = 0.0) -> None:
        """Sample now, in the thread that asks; nothing if somebody else is sampling, and still is
        after `wait_s`."""
        if not self._sampling.acquire(timeout=wait_s):
            return
        try:
            self._full_at_s = self._glance_at_s = time.monotonic()
            for source in self._all():
                _guarded(source, source.sample, recorder)
        finally:
            self._sampling.release()

    def _all(self) -> Sequence[Source]:
        if self._sources is None:
            self._sources = system_sources(self._pid)
        return self._sources

    def _tick(self, recorder: Recorder) -> None:
        if time.monotonic() - self._full_at_s >= self.full_s:
            self.look(recorder)
        elif self._sampling.acquire(blocking=False):
            try:
                self._glance(recorder)
            finally:
                self._sampling.release()

    def _glance(self, recorder: Recorder) -> None:
        now_s = time.monotonic()
        if now_s - self._glance_at_s >= _GLANCE_S:
            self._glance_at_s = now_s
            for source in self._all():
                glance = getattr(source, "glance", None)
                if glance is not None:
                    _guarded(source, glance, recorder)

    def _run(self, recorder: Recorder, stop: _Stop) -> None:
        while True:
            self._tick(recorder)
            if stop.wait(self.interval_s):
                return
            if not self._keep_going() and self._ends(stop):
                return

    def _ends(self, stop: _Stop) -> bool:
        """Nothing keeps the thread going, unless somebody wanted it a moment ago."""
        with self._starting:
            wanted, self._wanted = self._wanted, False
            if not wanted and not stop.is_set():
                self._thread = None
            return not wanted


class _Stop:
    """An event for one thread that waits: a lock wakes it for less than threading.Event does."""

    def __init__(self) -> None:
        self._held, self._changing = threading.Lock(), threading.Lock()
        self._held.acquire()
        self._is_set = False

    def set(self) -> None:
        self._is_set = True
        self.nudge()

    def is_set(self) -> bool:
        return self._is_set

    def nudge(self) -> None:
        """End the wait, or the next one where nobody waits."""
        with self._changing:
            if self._held.locked():
                self._held.release()

    def wait(self, timeout_s: float) -> bool:
        """Whether it is set; after that time at the latest."""
        self._held.acquire(timeout=min(timeout_s, threading.TIMEOUT_MAX))
        return self._is_set


def _guarded(source: Source, look: Callable[[Recorder], None], recorder: Recorder) -> None:
    try:
        look(recorder)
    except Exception as error:  # noqa: BLE001 - the others are not to be silenced
        recorder.failed(f"sampling {type(source).__name__}", error)


def _before_fork(collectors: Sequence[SystemCollector]) -> None:
    for collector in collectors:
        collector.before_fork()


_forks = Forks(_before_fork, SystemCollector.after_fork)


def system_sources(pid: int) -> Sequence[Source]:
    """What can be sampled on this machine."""
    if os.path.exists("/proc/self/stat"):  # noqa: PTH110
        from stepscope.collect.host import Host
        from stepscope.collect.process_tree import ProcessTree

        return (Host(pid), ProcessTree(pid), find_gpus())
    from stepscope.collect.portable import PortableHost, PortableTree

    return (PortableHost(), PortableTree(pid), find_gpus())
