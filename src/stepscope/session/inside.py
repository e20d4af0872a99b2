"""Profiling from inside the program: the recorder, its files, and what is read back from them."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from stepscope.analyze.operations import OperationFold, OperationUse
from stepscope.collect.imports import when_imported
from stepscope.collect.system import Source, SystemCollector, system_sources
from stepscope.config import ENV_RUN
from stepscope.model import names
from stepscope.model.event import Batch
from stepscope.model.process import ProcessInfo
from stepscope.session.header import Moment
from stepscope.session.program import Program, program_here
from stepscope.store.tail import RunTail

if TYPE_CHECKING:
    from stepscope.record.protocol import Operation

__all__ = ["Follower", "Inside", "current", "inside"]

_COST_SHARE = 100  # readings at the ends of runs may take a hundredth of the time
_LEAST_NS = 10_000_000  # between two of them
_LINGER_SAMPLES = 4  # the sampler goes on for so long after the last run has ended
_TOTALS = {
    "calls": names.OPERATION_CALLS,
    "failed": names.OPERATION_FAILED,
    "wall_ns": names.OPERATION_WALL_NS,
    "user_ns": names.OPERATION_USER_NS,
    "system_ns": names.OPERATION_SYSTEM_NS,
    "shortest_ns": names.OPERATION_SHORTEST_NS,
    "longest_ns": names.OPERATION_LONGEST_NS,
}


class Follower(Protocol):
    """Is given what is recorded, as it is read back."""

    def update(self, process: ProcessInfo, batches: Iterable[Batch]) -> None: ...


class Inside:
    """One for the process, from the first profiler that is made to the end.

    Nothing in here raises into the program while it runs: errors are counted by the recorder.
    """

    def __init__(self, program: Program) -> None:
        self._program = program
        self.recorder = program.recorder
        core = self.recorder.core
        self._ids = {key: self.recorder.intern(name) for key, name in _TOTALS.items()}
        self._name = self.recorder.intern(names.OPERATION)
        self._sources: tuple[Source, ...] = ()
        self.can_reset_peak = core.watch_memory(
            self.recorder.intern(names.PROCESS_RSS_BYTES),
            self.recorder.intern(names.PROCESS_PEAK_RSS_BYTES),
        )
        self._begin()
        os.register_at_fork(after_in_child=self._begin)

    def _begin(self) -> None:
        """Also in a forked child: what was measured is the parent's."""
        self._lock = threading.RLock()
        self._operations: dict[str, Operation] = {}
        self._said: dict[str, int] = {}  # identity → number of runs in the totals last recorded
        self._fold = OperationFold(os.getpid())
        self._followers: list[Follower] = []
        self._tail = RunTail(self._program.run, self._is_ours)
        self._idle = 0
        self._collector = SystemCollector(os.getpid(), 1e9, keep_going=self._goes_on)
        self.recorder.core.call_at(self._look_at_ends, 0)

    @property
    def run(self) -> Path:
        """The folder that events are written to."""
        return self._program.run

    def _is_ours(self, base: Path) -> bool:
        """This process and the workers it started, not other ranks or the launcher."""
        return base.parent.name == self._program.base.parent.name

    # ---- operations ----

    def operation(self, identity: str, keep: int, interval_s: float) -> Operation:
        """The operation of that identity; `interval_s`: how often to sample while it runs."""
        with self._lock:
            found = self._operations.get(identity)
            if found is None:
                number = self.recorder.intern(identity)
                found = self.recorder.core.Operation(self._name, number, keep)
                self._operations[identity] = found
            self._collector.interval_s = min(self._collector.interval_s, interval_s)
            return found

    def mark(self, name: str, identity: str, arg: int = 0) -> None:
        """An event about an operation."""
        self.recorder.mark(self.recorder.intern(name), arg, self.recorder.intern(identity))

    def _look_at_ends(self) -> int:
        """A run begins or ends, and the last look is long enough ago; when the next may be."""
        began_ns = self.recorder.now_ns()
        self._idle = 0
        self._collector.look(self.recorder)  # before its thread, which would be in our way
        self._collector.start(self.recorder)
        now_ns = self.recorder.now_ns()
        return now_ns + max(_LEAST_NS, _COST_SHARE * (now_ns - began_ns))

    def look(self) -> None:
        """Sample everything now."""
        self._collector.look(self.recorder)

    def _goes_on(self) -> bool:
        """Asked by the sampler after each sample: is anything running, or was it just now?"""
        self.pull()
        running = any(one.totals()["running"] for one in list(self._operations.values()))
        self._idle = 0 if running else self._idle + 1
        return self._idle < _LINGER_SAMPLES

    def add_source(self, source: Source) -> None:
        """Something more to sample along."""
        with self._lock:
            self._sources += (source,)
            old, self._collector = (
                self._collector,
                SystemCollector(
                    os.getpid(),
                    self._collector.interval_s,
                    (*system_sources(os.getpid()), *self._sources),
                    keep_going=self._goes_on,
                ),
            )
        old.stop()
        self._collector.start(self.recorder)

    # ---- reading back ----

    def pull(self) -> None:
        """Takes in what was recorded since the last time."""
        with self._lock:
            self._say_totals()
            self.recorder.flush()
            for news in self._tail.read_new():
                if news.base == self._program.base:
                    for batch in news.batches:
                        self._fold.update(batch)
                for follower in self._followers:
                    follower.update(news.process, news.batches)

    def _say_totals(self) -> None:
        for identity, operation in self._operations.items():
            totals = operation.totals()
            if totals["calls"] != self._said.get(identity):
                self._said[identity] = totals["calls"]
                text = self.recorder.intern(identity)
                for key, number in self._ids.items():
                    self.recorder.mark(number, totals[key], text)

    def use(self, identity: str) -> OperationUse | None:
        """What an operation used, over all runs that have ended; None: none has."""
        self.look()  # the last run may have ended since
        self.pull()
        return self._fold.get(identity)

    def use_between(self, identity: str, start_ns: int) -> OperationUse:
        """What a run that began then and goes on used; its own CPU time is not in it."""
        self.look()
        self.pull()
        return self._fold.between(identity, start_ns, self.recorder.now_ns())

    def use_sampled(self, identity: str, start_ns: int) -> OperationUse:
        """The same, with its CPU time as it was sampled: for those who did not ask at the start."""
        use = self.use_between(identity, start_ns)
        cores = use.resources.program.cpu_cores or 0.0
        return replace(use, user_ns=round(cores * use.wall_ns))

    def use_then(self, identity: str, start_ns: int, end_ns: int) -> OperationUse:
        """What was used between two moments that are over."""
        self.pull()
        return self._fold.between(identity, start_ns, end_ns)

    def follow(self, follower: Follower) -> None:
        """Give it everything that is recorded from now on."""
        with self._lock:
            self.pull()
            self._followers.append(follower)

    def unfollow(self, follower: Follower) -> None:
        """Give it what was recorded up to now, and nothing more."""
        with self._lock:
            self.pull()
            if follower in self._followers:
                self._followers.remove(follower)


_inside: Inside | None = None
_making = threading.Lock()


def inside() -> Inside:
    """The session of this process; made on first use."""
    global _inside
    with _making:
        if _inside is None:
            began = Moment.now()
            program = program_here(os.environ.get(ENV_RUN) or _temporary_run(), began)
            if "torch" in sys.modules:
                program.start()
            else:
                when_imported("torch", lambda _: program.start(), program.recorder.failed)
            program.wake()
            _inside = Inside(program)
        return _inside


def current() -> Inside | None:
    """The session of this process, if anything was profiled in it."""
    return _inside


def _temporary_run() -> str:
    """A folder that goes with the process, unless its run is saved."""
    import atexit
    import shutil
    import tempfile

    folder = tempfile.mkdtemp(prefix="stepscope-")
    owner = os.getpid()

    def remove() -> None:
        if os.getpid() == owner:
            shutil.rmtree(folder, ignore_errors=True)

    atexit.register(remove)  # before the program's own: they run in reverse
    return folder
