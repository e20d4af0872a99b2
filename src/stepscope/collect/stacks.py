"""The stacks of the program's threads → `stack` samples, and what their numbers mean."""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

from stepscope.model import names
from stepscope.record.recorder import Recorder
from stepscope.record.threads import join_fully

if TYPE_CHECKING:
    from stepscope.record.protocol import Node, StackSampler

__all__ = ["StackCollector"]

_OWN_THREADS = "stepscope"  # how the names of our own begin
_NAMED_BYTES = 4 << 20  # every file begins with all names, and is 8 MiB long

_named_bytes = 0  # in this process: names are never forgotten
_running: StackCollector | None = None  # the core samples once a process
_minds_forks = False


class StackCollector:
    """Samples every `interval_s` on average; `threads`: only these, by the kernel's ids.

    A small Python thread sleeps until stacks were seen that are new, and records what they are. A
    fork finds none of these threads: they end before it and begin again after it, in the parent.
    """

    name = "stacks"

    def __init__(self, interval_s: float, threads: Sequence[int] | None = None) -> None:
        self._interval_ns = round(interval_s * 1e9)
        self._threads = tuple(threads or ())
        self._recorder: Recorder | None = None
        self._sampler: StackSampler | None = None
        self._resolver: threading.Thread | None = None
        self._frame = 0

    def start(self, recorder: Recorder) -> None:
        global _running
        if self._recorder is not None:
            return
        try:
            if self._sampler is None:  # kept: so it keeps its numbers, and they their names
                self._sampler = recorder.core.StackSampler(recorder.intern(names.STACK))
            self._frame = recorder.intern(names.STACK_FRAME)
            self._recorder = recorder
            self._begin()
            _mind_forks()
            _running = self
            atexit.register(self.stop)  # before those that were there first, and close the files
        except Exception as error:  # noqa: BLE001 - the border with the user's program
            self._recorder = None
            recorder.failed("starting the stack sampler", error)

    def stop(self) -> None:
        """End, with everything told that was seen."""
        global _running
        if self._recorder is None:
            return
        atexit.unregister(self.stop)
        self._end()
        self.resolve()
        self._recorder = None
        if _running is self:
            _running = None

    def resolve(self) -> None:
        """Record what the numbers so far mean, where it was not done yet."""
        recorder, sampler = self._recorder, self._sampler
        if recorder is None or sampler is None:
            return
        try:
            for node in sampler.resolve():
                self._name(recorder, node)
        except Exception as error:  # noqa: BLE001 - the border with the user's program
            recorder.failed("naming stacks", error)

    def _name(self, recorder: Recorder, node: Node) -> None:
        global _named_bytes
        text = _text(node)
        if _named_bytes + len(text) > _NAMED_BYTES:
            raise MemoryError("too many stacks to name them all")
        _named_bytes += len(text)
        recorder.mark(self._frame, node[0], recorder.intern(text))

    def counters(self) -> dict[str, int]:
        """Of the sampler: see record/protocol.py."""
        return self._sampler.counters() if self._sampler is not None else {}

    def _begin(self) -> None:
        assert self._sampler is not None
        own = [
            thread.native_id
            for thread in threading.enumerate()
            if thread.name.startswith(_OWN_THREADS) and thread.native_id is not None
        ]
        self._sampler.start(self._interval_ns, self._threads, own)
        self._resolver = threading.Thread(
            target=self._run, args=(self._sampler,), name="stepscope-stacks", daemon=True
        )
        self._resolver.start()

    def _end(self) -> None:
        resolver, self._resolver = self._resolver, None
        if self._sampler is not None:
            self._sampler.stop()
        if resolver is not None:
            join_fully(resolver)

    def _run(self, sampler: StackSampler) -> None:
        while sampler.wait():
            self.resolve()

    def _around_fork(self, begins: bool) -> None:
        if self._recorder is None:
            return
        try:
            self._begin() if begins else self._end()
        except Exception as error:  # noqa: BLE001 - the border with the user's program
            self._recorder.failed("sampling stacks around a fork", error)


def _mind_forks() -> None:
    """Once: such functions cannot be taken back."""
    global _minds_forks
    if _minds_forks:
        return
    _minds_forks = True
    os.register_at_fork(
        before=lambda: _running._around_fork(False) if _running else None,
        after_in_parent=lambda: _running._around_fork(True) if _running else None,
        after_in_child=_forget,
    )


def _forget() -> None:
    """A child is not sampled unless it asks for it: most are workers that feed the parent."""
    global _running
    if _running is not None:
        _running._recorder = None
        _running = None


def _text(node: Node) -> str:
    _, caller, file, function, line = node
    text = f"{caller}\t{line}\t{function.replace(chr(9), ' ')}\t{file}"
    return text.encode("utf-8", "backslashreplace").decode()  # a path need not be Unicode
