"""Calls something every now and then, from a thread of its own."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Sequence

from stepscope.forks import Forks
from stepscope.record.threads import join_fully

__all__ = ["Ticking"]


class Ticking:
    """Calls `tick` every `interval_s` from `start` to `stop`, as long as its owner lives.

    tick: a bound method, which is not kept alive. Around a fork the thread is stopped. It goes on
    in the parent; in the child `left_behind` is called.
    """

    def __init__(self, tick: Callable[[], None], interval_s: float, name: str) -> None:
        self.interval_s = interval_s
        self._tick = weakref.WeakMethod(tick)
        self._name = name
        self._lock = threading.Lock()
        self._changed = threading.Event()
        self._thread: threading.Thread | None = None
        self._left_behind: weakref.WeakMethod[Callable[[], None]] | None = None

    @property
    def is_running(self) -> bool:
        return self._thread is not None

    def start(self, left_behind: Callable[[], None]) -> None:
        """Again: with the interval as it is now. left_behind: a bound method, not kept alive."""
        self._left_behind = weakref.WeakMethod(left_behind)
        self.begin()
        _forks.mind(self)

    def begin(self) -> None:
        """A thread, in place of any that there is."""
        with self._lock:
            self._changed.set()
            self._changed = threading.Event()
            args = (weakref.ref(self), self._changed)
            self._thread = threading.Thread(target=_run, args=args, name=self._name, daemon=True)
            self._thread.start()

    def stop(self) -> None:
        with self._lock:
            thread, self._thread = self._thread, None
            self._changed.set()
        if thread is not None and thread is not threading.current_thread():
            join_fully(thread)

    def forget(self) -> None:
        """In a forked child: the thread is the parent's."""
        self._lock = threading.Lock()
        self._thread = None
        call = None if self._left_behind is None else self._left_behind()
        if call is not None:
            call()


def _run(ticking_ref: weakref.ref[Ticking], stop: threading.Event) -> None:
    while (ticking := ticking_ref()) is not None:
        interval_s = ticking.interval_s
        del ticking  # while we wait, it may go
        if stop.wait(interval_s):
            return
        ticking = ticking_ref()
        tick = None if ticking is None else ticking._tick()
        if tick is None:
            return
        tick()
        del ticking, tick


def _stop(running: Sequence[Ticking]) -> None:
    for ticking in running:
        ticking.stop()


_forks = Forks(_stop, Ticking.begin, Ticking.forget, lambda ticking: ticking.is_running)
