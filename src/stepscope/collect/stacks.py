"""The stacks of the program's threads → `stack` samples, and what their numbers mean."""

from __future__ import annotations

import atexit
import os
import threading
import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from stepscope.model import names
from stepscope.model.own_code import OWN_FILE, is_ours
from stepscope.record.recorder import Recorder
from stepscope.record.threads import join_fully

if TYPE_CHECKING:
    from stepscope.record.protocol import Node

__all__ = ["StackCollector", "frame_text", "mind_forks", "tell_nodes", "tell_stacks_again"]

_OWN_THREADS = "stepscope"  # how the names of our own begin
_NAMED_BYTES = 4 << 20  # every file begins with all names, and is 8 MiB long
_TOLD_AT_ONCE = 2000  # what a ring holds with ease

_named_bytes = 0  # in this process: names are never forgotten
_sampling: _Sampling | None = None  # the core samples once a process
_minds_forks = False


class StackCollector:
    """Wants a sample every `interval_s` on average; `threads`: only these, by the kernel's ids.

    All collectors of a process share one sampler. It takes what any of them wants: the shortest
    interval of those that were started, and all threads unless each of them named some.
    """

    name = "stacks"

    def __init__(self, interval_s: float, threads: Sequence[int] | None = None) -> None:
        self.plan = _Plan(round(interval_s * 1e9), frozenset(threads or ()))
        self._joined: _Sampling | None = None

    def start(self, recorder: Recorder) -> None:
        if self._here() is not None:
            return
        try:
            sampling = _sampling_of(recorder)
            sampling.add(self)
            self._joined = sampling
            atexit.register(self.stop)  # before those that were there first, and close the files
        except Exception as error:  # noqa: BLE001 - the border with the user's program
            recorder.failed("starting the stack sampler", error)

    def stop(self) -> None:
        """End, with everything told that was seen."""
        sampling = self._here()
        if sampling is None:
            return
        self._joined = None
        atexit.unregister(self.stop)
        try:
            sampling.remove(self)
        except Exception as error:  # noqa: BLE001 - the border with the user's program
            sampling.recorder.failed("stopping the stack sampler", error)

    def resolve(self) -> None:
        """Record what the numbers so far mean, where it was not done yet."""
        sampling = self._here()
        if sampling is not None:
            sampling.resolve()

    def counters(self) -> dict[str, int]:
        """Of the sampler, since it was first started: see record/protocol.py."""
        sampling = self._joined or _sampling
        return sampling.sampler.counters() if sampling is not None else {}

    def _here(self) -> _Sampling | None:
        """Where it takes part; None: it was not started, or by the parent of a forked child."""
        joined = self._joined
        return joined if joined is not None and joined.pid == os.getpid() else None


def tell_stacks_again() -> None:
    """Record once more what all numbers so far mean: somebody began to listen only now."""
    if _sampling is not None and _sampling.pid == os.getpid():
        _sampling.tell_again()


class _Plan(NamedTuple):
    interval_ns: int
    threads: frozenset[int]  # none: all of them


class _Sampling:
    """The one sampler of this process, for all that want stacks.

    A small Python thread sleeps until stacks were seen that are new, and records what they are. A
    fork finds none of these threads: they end before it and begin again after it, in the parent. A
    child begins with a new one of these, if it asks for any.
    """

    def __init__(self, recorder: Recorder) -> None:
        self.pid = os.getpid()
        self.recorder = recorder
        # Kept as long as the process lives: so it keeps its numbers, and they their names.
        self.sampler = recorder.core.StackSampler(recorder.intern(names.STACK))
        self._frame = recorder.intern(names.STACK_FRAME)
        self._cost = recorder.intern(names.OWN_STACKS_CPU_NS)
        self._lock = threading.RLock()
        self._wants: list[StackCollector] = []
        self._plan: _Plan | None = None  # that it runs by; None: it does not run
        self._resolver: threading.Thread | None = None
        self._resolver_cpu_ns = 0
        self._told: list[tuple[int, int]] = []  # number of a stack, name

    @property
    def is_wanted(self) -> bool:
        return bool(self._wants)

    def add(self, collector: StackCollector) -> None:
        with self._lock:
            self._wants.append(collector)
            try:
                self._follow_wants()
            except Exception:
                self._wants.remove(collector)
                raise

    def remove(self, collector: StackCollector) -> None:
        with self._lock:
            if collector in self._wants:
                self._wants.remove(collector)
            self._follow_wants()
        self.resolve()

    def _follow_wants(self) -> None:
        plan = _joint([collector.plan for collector in self._wants])
        if plan == self._plan:
            return
        if self._plan is not None:
            self._end()
        if plan is not None:
            self._begin(plan)

    def _begin(self, plan: _Plan) -> None:
        own = [
            thread.native_id
            for thread in threading.enumerate()
            if thread.name.startswith(_OWN_THREADS) and thread.native_id is not None
        ]
        self.sampler.start(plan.interval_ns, tuple(plan.threads), own)
        self._plan = plan
        self._resolver = threading.Thread(target=self._run, name="stepscope-stacks", daemon=True)
        self._resolver.start()

    def _end(self) -> None:
        resolver, self._resolver, self._plan = self._resolver, None, None
        self.sampler.stop()
        if resolver is not None:
            join_fully(resolver)

    def _run(self) -> None:
        before_ns = self._resolver_cpu_ns
        while self.sampler.wait():
            self.resolve()
            self._resolver_cpu_ns = before_ns + time.thread_time_ns()

    def resolve(self) -> None:
        recorder = self.recorder
        try:
            self._told += tell_nodes(recorder, self.sampler.resolve())
            cpu_ns = self.sampler.counters()["cpu_ns"] + self._resolver_cpu_ns
            recorder.sample(self._cost, float(cpu_ns))
        except Exception as error:  # noqa: BLE001 - the border with the user's program
            recorder.failed("naming stacks", error)

    def tell_again(self) -> None:
        for place, named in enumerate(list(self._told), 1):
            self.recorder.mark(self._frame, *named)
            if place % _TOLD_AT_ONCE == 0:
                self.recorder.flush()

    def before_fork(self) -> None:
        self._lock.acquire()  # nobody begins anything while the process forks
        if self._plan is not None:
            self._end()

    def after_fork_in_parent(self) -> None:
        try:
            self._follow_wants()
        finally:
            self._lock.release()


def _joint(plans: Sequence[_Plan]) -> _Plan | None:
    if not plans:
        return None
    everybody = any(not plan.threads for plan in plans)
    threads = frozenset[int]().union(*(plan.threads for plan in plans))
    return _Plan(min(plan.interval_ns for plan in plans), frozenset() if everybody else threads)


def _sampling_of(recorder: Recorder) -> _Sampling:
    """That of this process; made on first use, and by a forked child anew."""
    global _sampling
    found = _sampling
    if found is not None and found.pid == os.getpid():
        if found.recorder.core is recorder.core:
            return found
        if found.is_wanted:
            raise RuntimeError("another core samples stacks in this process")
    mind_forks()
    _sampling = _Sampling(recorder)
    return _sampling


def mind_forks() -> None:
    """Once: such functions cannot be taken back. For those who have to come before or after."""
    global _minds_forks
    if _minds_forks:
        return
    _minds_forks = True
    os.register_at_fork(
        before=lambda: _around_fork("before_fork"),
        after_in_parent=lambda: _around_fork("after_fork_in_parent"),
        after_in_child=_forget,
    )


def _around_fork(what: str) -> None:
    if _sampling is None:
        return
    try:
        getattr(_sampling, what)()
    except Exception as error:  # noqa: BLE001 - the border with the user's program
        _sampling.recorder.failed("sampling stacks around a fork", error)


def _forget() -> None:
    """A child is not sampled unless it asks for it, which it may have done before this."""
    global _sampling
    if _sampling is not None and _sampling.pid != os.getpid():
        _sampling = None


def tell_nodes(recorder: Recorder, nodes: Iterable[Node]) -> list[tuple[int, int]]:
    """Record what numbers of stacks mean: (number, name) of each. MemoryError: there are too many
    in this process to name them all."""
    global _named_bytes
    frame = recorder.intern(names.STACK_FRAME)
    told = []
    for node in nodes:
        text = frame_text(node)
        if _named_bytes + len(text) > _NAMED_BYTES:
            raise MemoryError("too many stacks to name them all")
        _named_bytes += len(text)
        told.append((node[0], recorder.intern(text)))
        recorder.mark(frame, *told[-1])
    return told


def frame_text(node: Node) -> str:
    """What the mark of a node says. Frames of ours are there, for depths to be right, but all that
    is said of them is whose they are."""
    _, caller, file, function, line = node
    if is_ours(file, function):
        file, function, line = OWN_FILE, "", 0
    text = f"{caller}\t{line}\t{function.replace(chr(9), ' ')}\t{file}"
    return text.encode("utf-8", "backslashreplace").decode()  # a path need not be Unicode
