"""Profiling from inside the program: the recorder, its files, and what is read back from them."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from stepscope.analyze.operations import OperationUse
from stepscope.collect.imports import when_imported
from stepscope.collect.own_memory import watch_own_process
from stepscope.collect.stacks import mind_forks
from stepscope.collect.system import Source, SystemCollector, system_sources
from stepscope.config import ENV_RUN
from stepscope.model import names
from stepscope.model.event import Batch
from stepscope.model.process import ProcessInfo
from stepscope.session.header import Moment
from stepscope.session.operation_table import OperationTable, say_run_cost
from stepscope.session.program import Program, program_here
from stepscope.session.temporary_run import temporary_run
from stepscope.session.watchers import Pace, ReadBack, Schedule, Watcher, pace_for
from stepscope.store.tail import News, RunTail

if TYPE_CHECKING:
    from stepscope.record.protocol import Operation

__all__ = ["Follower", "Inside", "current", "inside"]

_COST_SHARE = 100  # readings at the ends of runs may take a hundredth of the time
_LEAST_NS = 10_000_000  # between two of them
_LINGER_SAMPLES = 4  # the sampler goes on for so long after the last run has ended
_PATIENCE_S = 0.1  # with a sampler that is at work at that moment
_NEVER_S = 1e9
_FILES_KEPT = 24  # of 8 MiB each: what is older is dropped, and its totals stay


class Follower(Protocol):
    """Is given what is recorded, as it is read back."""

    def update(self, process: ProcessInfo, batches: Iterable[Batch]) -> None: ...
    def after_fork(self) -> None: ...


class Inside:
    """One for the process, from the first profiler that is made to the end.

    Nothing in here raises into the program while it runs: errors are counted by the recorder.
    """

    def __init__(self, program: Program) -> None:
        self._program = program
        self.recorder = program.recorder
        core = self.recorder.core
        self._sources: tuple[Source, ...] = ()
        self.can_reset_peak = core.watch_memory(
            self.recorder.intern(names.PROCESS_RSS_BYTES),
            self.recorder.intern(names.PROCESS_PEAK_RSS_BYTES),
        )
        say_run_cost(self.recorder)
        self._operations = OperationTable(self.recorder)
        self._followers: list[Follower] = []
        self._at_tick: list[Callable[[], None]] = []
        self._watchers: list[Watcher] = []
        self._is_forked = False
        self._interval_s = _NEVER_S  # until something is measured
        self._begin()
        # Before a fork these run in reverse: the sampler's thread, which may begin or end the
        # sampling of stacks, has to be gone before stacks are held.
        mind_forks()
        os.register_at_fork(
            before=self._before_fork,
            after_in_parent=self._forked,
            after_in_child=self._after_fork,
        )

    def _before_fork(self) -> None:
        """It waits until nobody is in the middle of something; the sampler's thread, which needs
        the lock now and then, has to be gone by then."""
        self._collector.before_fork()
        self.lock.acquire()

    def _forked(self) -> None:
        """In the parent."""
        self.lock.release()

    def _after_fork(self) -> None:
        """In a forked child: what was measured is the parent's."""
        self._is_forked = True
        self._operations.after_fork()
        self._begin()
        for follower in self._followers:
            follower.after_fork()
        watchers, self._watchers = self._watchers, []  # they watch the parent
        for watcher in watchers:
            watcher.after_fork()

    def _begin(self) -> None:
        self.lock = threading.RLock()
        self._gone: deque[tuple[str, Sequence[Follower]]] = deque()
        self._tail = RunTail(self._program.run, self._is_ours)
        self._idle = 0
        self._looks_ns = self._sampler_cpu_ns = 0  # what we cost
        self._schedule = Schedule()
        self._pace = Pace(self._interval_s)
        self._collector = SystemCollector(os.getpid(), self._interval_s, keep_going=self._goes_on)
        self.recorder.core.call_at(self._look_at_ends, 0)

    def hook(self) -> None:
        """Have torch's loaders, modules and optimizers seen."""
        _hook(self._program)

    @property
    def run(self) -> Path:
        """The folder that events are written to."""
        return self._program.run

    @property
    def base(self) -> Path:
        """What the names of this process's own files begin with."""
        return self._program.base

    def _is_ours(self, base: Path) -> bool:
        """This process and the workers it started, not other ranks, the launcher or a parent."""
        own = self._program.base
        return base == own or (not self._is_forked and base.parent.name == own.parent.name)

    # ---- operations ----

    def operation(self, identity: str, keep: int, interval_s: float) -> Operation:
        """The operation of that identity; `interval_s`: how often to sample while it runs."""
        with self.lock:
            self._interval_s = min(self._interval_s, interval_s)
            self._collector.interval_s = self._interval_s
            return self._operations.get(identity, keep)

    def forget(self, prefix: str, followers: Sequence[Follower] = ()) -> None:
        """Operations of a profiler that nobody has any more: what is recorded of them stays.

        The garbage collector calls this, at any moment: it is done with the next `pull`.
        """
        self._gone.append((prefix, followers))

    def _forget_gone(self) -> None:
        while self._gone:
            prefix, followers = self._gone.popleft()
            self._followers = [one for one in self._followers if one not in followers]
            self._operations.forget(prefix)

    def mark(self, name: str, identity: str, arg: int = 0) -> None:
        """An event about an operation."""
        self.recorder.mark(self.recorder.intern(name), arg, self.recorder.intern(identity))

    def _look_at_ends(self) -> int:
        """A run begins or ends, and the last look is long enough ago; when the next may be."""
        began_ns = self.recorder.now_ns()
        self._idle = 0
        try:
            self._collector.look(self.recorder)  # before its thread, which would be in our way
            self._sample_on()
        except Exception as error:  # noqa: BLE001 - the border with the user's program
            self.recorder.failed("sampling at the end of a run", error)
        cost_ns = self.recorder.now_ns() - began_ns
        self._looks_ns += cost_ns
        return began_ns + cost_ns + max(_LEAST_NS, _COST_SHARE * cost_ns)

    def look(self) -> None:
        """Sample everything now."""
        self._collector.look(self.recorder, _PATIENCE_S)

    def keep_sampling(self) -> None:
        """Sample now, and on from here, however short ago it was that a run began or ended."""
        self._idle = 0
        self.look()
        self._sample_on()

    def _sample_on(self) -> None:
        """Where only watchers had it sample until now, more often from now on."""
        if self._pace.own_s:
            self._set_pace()
        self._collector.start(self.recorder)

    def _goes_on(self) -> bool:
        """Asked by the sampler after each sample: is anything running, or was it just now?"""
        self._idle = 0 if self._operations.is_any_running else self._idle + 1
        goes_on = self._set_pace()
        try:
            self._read_back()
            for callback in self._at_tick:
                callback()
        except Exception as error:  # noqa: BLE001 - ours alone: the program goes on
            self.recorder.failed("reading back what was recorded", error)
        return goes_on

    def _set_pace(self) -> bool:
        """Whether there is anybody to sample for."""
        with self.lock:
            is_measuring = self._idle < _LINGER_SAMPLES and self._interval_s < _NEVER_S
            found = pace_for(self._watchers, self._interval_s if is_measuring else None)
            pace = found or Pace(self._interval_s)
            if pace.own_s != self._pace.own_s:
                watch_own_process(self.recorder, pace.own_s)
                self._program.set_calm(pace.own_s > 0)
            hurries = found is None or pace.interval_s < self._pace.interval_s
            self._pace = pace
            self._collector.interval_s, self._collector.full_s = pace.interval_s, pace.full_s
        if hurries:
            self._collector.hurry()
        return found is not None

    def _read_back(self) -> None:
        due = self._schedule.due(time.monotonic(), self._pace)
        if due is ReadBack.NOT_YET:
            return
        before_ns = time.thread_time_ns()
        if due is ReadBack.ALL_FILES or not self._pull_known():
            self.tidy()
        for watcher in list(self._watchers):
            watcher.look()
        self._sampler_cpu_ns += time.thread_time_ns() - before_ns

    def _pull_known(self) -> bool:
        """Whether there was anything; there always is, unless our own file was full."""
        with self.lock:
            self.recorder.flush()
            found = self._tail.read_known()
            self._give_out(found)
        return any(news.base == self._program.base for news in found)

    def watch(self, watcher: Watcher) -> None:
        """Sample, read back and ask it, from now on."""
        with self.lock:
            self._watchers.append(watcher)
        self.look()
        self._set_pace()
        self._collector.start(self.recorder)

    def unwatch(self, watcher: Watcher) -> None:
        with self.lock:
            if watcher in self._watchers:
                self._watchers.remove(watcher)
        self._set_pace()

    def add_source(self, source: Source) -> None:
        """Something more to sample along."""
        with self.lock:
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
        with self.lock:
            self._operations.say_totals()
            self._say_cost()
            self.recorder.flush()
            self._give_out(self._tail.read_new())
            self._forget_gone()

    def _give_out(self, found: Iterable[News]) -> None:
        for news in found:
            batches = [batch for batch in news.batches if not _is_tracked(batch)]
            if news.base == self._program.base:
                self._operations.update(batches)
            for follower in self._followers:
                follower.update(news.process, batches)

    def tidy(self) -> None:
        """Take in what was recorded, and let go of old files."""
        self.pull()
        if ENV_RUN not in os.environ and self._tail.has_done_files:
            self._tail.drop_done(_FILES_KEPT)  # elsewhere the launcher takes away what it has read

    @property
    def has_old_files(self) -> bool:
        """There is something to let go of."""
        own = self._program.base
        return sum(1 for _ in own.parent.glob(f"{own.name}.*.frames")) > _FILES_KEPT

    def _say_cost(self) -> None:
        sample, intern = self.recorder.sample, self.recorder.intern
        sample(intern(names.OWN_LOOKS_NS), float(self._looks_ns))
        sample(intern(names.OWN_SAMPLER_CPU_NS), float(self._sampler_cpu_ns))

    def use(self, identity: str) -> OperationUse | None:
        """What an operation used, over all runs that have ended; None: none has."""
        self.look()  # the last run may have ended since
        self.pull()
        return self._operations.used.get(identity)

    def use_between(self, identity: str, start_ns: int) -> OperationUse:
        """What a run that began then and goes on used; its own CPU time is not in it."""
        self.look()
        self.pull()
        return self._operations.used.between(identity, start_ns, self.recorder.now_ns())

    def use_sampled(self, identity: str, start_ns: int) -> OperationUse:
        """The same, with its CPU time as it was sampled: for those who did not ask at the start."""
        use = self.use_between(identity, start_ns)
        cores = use.resources.program.cpu_cores or 0.0
        return replace(use, user_ns=round(cores * use.wall_ns))

    def use_then(self, identity: str, start_ns: int, end_ns: int) -> OperationUse:
        """What was used between two moments that are over."""
        self.pull()
        return self._operations.used.between(identity, start_ns, end_ns)

    def at_tick(self, callback: Callable[[], None]) -> None:
        """Call it with each sample that the sampler's thread takes."""
        self._at_tick.append(callback)

    def follow(self, follower: Follower) -> None:
        """Give it everything that is recorded from now on."""
        with self.lock:
            self.pull()
            if follower not in self._followers:  # after a fork it is there already
                self._followers.append(follower)

    def unfollow(self, follower: Follower) -> None:
        """Give it what was recorded up to now, and nothing more."""
        with self.lock:
            self.pull()
            if follower in self._followers:
                self._followers.remove(follower)


def _is_tracked(batch: Batch) -> bool:
    """Of a memory profiler, which reads them by itself (store/batch_index.py); there may be
    millions of these events."""
    return batch.names[batch.columns["name"][0]] == names.TRACKED_TOTALS


_inside: Inside | None = None
_hooked = False
_making = threading.Lock()


def inside(hooks: bool = True) -> Inside:
    """The session of this process; made on first use.

    hooks: torch's loaders, modules and optimizers are to be seen. Who does without pays for none of
    them; once somebody wanted them, they stay.
    """
    global _inside
    with _making:
        if _inside is None:
            began = Moment.now()
            program = program_here(os.environ.get(ENV_RUN) or temporary_run(), began)
            if hooks:
                _hook(program)
            program.wake()
            _inside = Inside(program)
        elif hooks and not _hooked:
            _inside.hook()
        return _inside


def _hook(program: Program) -> None:
    global _hooked
    _hooked = True
    if "torch" in sys.modules:
        program.start()
    else:
        when_imported("torch", lambda _: program.start(), program.recorder.failed)


def current() -> Inside | None:
    """The session of this process, if anything was profiled in it."""
    return _inside
