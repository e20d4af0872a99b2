"""A thread that lives as long as there is something to do."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Sequence

from stepscope.forks import Forks

__all__ = ["Worker"]

# What a fork waits for threads: for one in the middle of something less than anybody notices; the
# others end as soon as they are given a moment, which on a busy machine may take one.
_FORK_PATIENCE_S = 0.05
_FORK_PATIENCE_IDLE_S = 5.0
_FAULT_PAUSE_S = 30.0  # after a fault of our own: it may pass, and must not keep a core busy


class Worker:
    """Calls `work(stop)` in a daemon thread as long as there is something to do.

    work: says in how many seconds it is to be called again; None: not before `wake`. It looks at
    `stop` between pieces of work, and returns 0 when that is true. It should not raise: if it does,
    it is called again after a pause. end: called in the thread when all is over.

    Around a fork there is no thread, unless one is in the middle of a piece of work that takes
    long: that one goes on in the parent, and is not there in the child. In a forked child this
    object must not be used: `Dispatcher` sees to that.
    """

    def __init__(
        self,
        work: Callable[[Callable[[], bool]], float | None],
        end: Callable[[], None],
        name: str,
    ) -> None:
        self._work, self._end, self._name = work, end, name
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._lives = False  # the thread, until it knows that it will end
        self._due: float | None = None  # on the monotonic clock; None: when there is news
        self._has_news = self._is_paused = self._is_finishing = self._is_over = False
        self._is_working = False
        _forks.mind(self)

    @property
    def is_working(self) -> bool:
        """The thread is in the middle of a piece of work."""
        return self._is_working

    def wake(self) -> None:
        """There is something to do. A pause that `work` asked for is not cut short."""
        with self._changed:
            self._has_news = True
            self._begin()

    def finish(self) -> None:
        """Works once more, whatever pause there was, and is over."""
        with self._changed:
            self._is_finishing = True
            self._changed.notify_all()
            self._begin()

    def join(self, timeout_s: float) -> bool:
        """Whether no thread is there within that time."""
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(max(0.0, timeout_s))
        return thread is None or not thread.is_alive()

    def pause(self) -> None:
        """The thread ends as soon as its piece of work does; `resume` has it go on."""
        with self._changed:
            self._is_paused = True
            self._changed.notify_all()

    def resume(self) -> None:
        with self._changed:
            self._is_paused = False
            if self._has_news or self._due is not None or self._is_finishing:
                self._begin()

    def _begin(self) -> None:
        if self._lives or self._is_paused or self._is_over:
            return
        self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
        try:
            self._thread.start()
            self._lives = True
        except RuntimeError:  # no more threads: what is pending stays so
            self._thread = None

    def _run(self) -> None:
        while self._may_work():
            is_last = self._is_finishing
            pause_s = self._try_to_work()
            with self._changed:
                self._is_working = False
                self._due = None if pause_s is None else time.monotonic() + pause_s
                self._is_over = is_last and pause_s != 0.0
            if self._is_over:
                with contextlib.suppress(Exception):  # as below
                    self._end()

    def _try_to_work(self) -> float | None:
        try:
            return self._work(lambda: self._is_paused)
        except Exception:  # noqa: BLE001 - a thread that ended would never deliver anything again
            return _FAULT_PAUSE_S

    def _may_work(self) -> bool:
        """When it is time to; False: the thread is to end."""
        with self._changed:
            if self._due is not None:
                pause_s = max(0.0, self._due - time.monotonic())
                self._changed.wait_for(lambda: self._is_paused or self._is_finishing, pause_s)
            wanted = self._has_news or self._due is not None or self._is_finishing
            self._lives = wanted and not self._is_paused and not self._is_over
            self._has_news = self._has_news and not self._lives
            self._is_working = self._lives
            return self._lives


def _pause(workers: Sequence[Worker]) -> None:
    for worker in workers:
        worker.pause()
    now = time.monotonic()
    for worker in workers:
        patience_s = _FORK_PATIENCE_S if worker.is_working else _FORK_PATIENCE_IDLE_S
        worker.join(now + patience_s - time.monotonic())


_forks = Forks(_pause, Worker.resume)
