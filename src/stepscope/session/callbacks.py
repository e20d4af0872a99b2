"""Functions of the user's that are told of alerts, plain and async ones, in their own threads."""

from __future__ import annotations

import inspect
import threading
import time
from collections import deque
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Final

from stepscope.descriptor import identity_of, is_our_socket
from stepscope.model.alert import Alert

if TYPE_CHECKING:
    import asyncio  # many programs have no async function: they do without it

__all__ = ["AlertCallback", "Callbacks"]

AlertCallback = Callable[[Alert], Any]
_MOST_WAITING: Final = 1000  # alerts, for one function that does not come back


class Callbacks:
    """`tell` never waits and never raises: who is slow, fails or hangs holds up nobody else.

    Each plain function has a thread of its own while there is something to tell it; async ones
    share an event loop, in one thread. failed: told of each error, with the name of the function.
    """

    def __init__(self, failed: Callable[[str, BaseException], None]) -> None:
        self._failed = failed
        self.errors = self.untold = 0
        self._ears: list[tuple[AlertCallback, _Plain | _Async]] = []
        self._lock = threading.Lock()
        self._loop = _LoopThread()

    def after_fork(self) -> None:
        """In a forked child: threads, and what waits for them, are the parent's."""
        self._lock = threading.Lock()
        self._loop.leave_to_parent()
        self._loop = _LoopThread()
        self._ears = [(callback, self._ear(callback)) for callback, _ in self._ears]

    def add(self, callback: AlertCallback) -> None:
        self._ears.append((callback, self._ear(callback)))

    def remove(self, callback: AlertCallback) -> bool:
        """Whether it was there; the one that was added last."""
        for place in range(len(self._ears) - 1, -1, -1):
            if self._ears[place][0] == callback:
                del self._ears[place]
                return True
        return False

    def tell(self, alert: Alert) -> None:
        for _, ear in list(self._ears):
            if not ear.put(alert):
                with self._lock:
                    self.untold += 1

    def wait(self, patience_s: float) -> bool:
        """Whether all were told all within that time."""
        until_s = time.monotonic() + patience_s
        return all(ear.wait(until_s) for _, ear in list(self._ears))

    def _ear(self, callback: AlertCallback) -> _Plain | _Async:
        if _is_async(callback):
            return _Async(callback, self._error, self._loop)
        return _Plain(callback, self._error)

    def _error(self, callback: AlertCallback, error: BaseException) -> None:
        with self._lock:
            self.errors += 1
        self._failed(getattr(callback, "__qualname__", repr(callback)), error)


class _Plain:
    """One function, and the alerts that it was not told yet."""

    def __init__(
        self, callback: AlertCallback, error: Callable[[AlertCallback, BaseException], None]
    ) -> None:
        self._callback, self._error = callback, error
        self._lock = threading.Lock()
        self._waiting: deque[Alert] = deque()
        self._thread: threading.Thread | None = None

    def put(self, alert: Alert) -> bool:
        with self._lock:
            if len(self._waiting) >= _MOST_WAITING:
                return False
            self._waiting.append(alert)
            if self._thread is None:
                self._thread = _started(self._work)
            return self._thread is not None

    def wait(self, until_s: float) -> bool:
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(max(0.0, until_s - time.monotonic()))
        return self._thread is None

    def _work(self) -> None:
        """Until all is told: a fork should find no idle thread."""
        while True:
            with self._lock:
                if not self._waiting:
                    self._thread = None
                    return
                alert = self._waiting.popleft()
            try:
                result = self._callback(alert)
                if inspect.iscoroutine(result):  # of a lambda around an async function
                    import asyncio

                    asyncio.run(result)
            except BaseException as error:  # noqa: BLE001 - somebody else's code
                self._error(self._callback, error)


class _Async:
    """One async function: its alerts one after the other, beside those of the others."""

    def __init__(
        self,
        callback: AlertCallback,
        error: Callable[[AlertCallback, BaseException], None],
        loop: _LoopThread,
    ) -> None:
        self._callback, self._error, self._loop = callback, error, loop
        self._lock = threading.Lock()
        self._waiting: deque[Alert] = deque()
        self._is_at_work = False

    def put(self, alert: Alert) -> bool:
        with self._lock:
            if len(self._waiting) >= _MOST_WAITING:
                return False
            self._waiting.append(alert)
            if not self._is_at_work:
                self._is_at_work = self._loop.run(self._work())
            return self._is_at_work

    def wait(self, until_s: float) -> bool:
        if not self._loop.is_here:
            while self._is_at_work and time.monotonic() < until_s:
                time.sleep(0.005)
        return not self._is_at_work

    async def _work(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._is_at_work = False
                    return
                alert = self._waiting.popleft()
            try:
                await self._callback(alert)
            except BaseException as error:  # noqa: BLE001 - somebody else's code
                self._error(self._callback, error)


class _LoopThread:
    """An event loop that lives on, and a thread that runs it while it has tasks.

    What a function keeps between two alerts (a session, a lock) belongs to the same loop.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._new: deque[Coroutine[Any, Any, None]] = deque()
        self._thread: threading.Thread | None = None
        self._pair: list[tuple[Any, tuple[int, int] | None]] = []  # sockets that wake the loop

    def __del__(self) -> None:
        if self._loop is not None and not self._loop.is_running() and self._is_whole():
            self._loop.close()

    def _is_whole(self) -> bool:
        """False: the program has closed the loop's sockets. The loop is of no use any more, and
        closing it would close files of the program."""
        ours = [is_our_socket(sock, opened) for sock, opened in self._pair]
        if all(ours):
            return True
        self.leave_to_parent()
        return False

    def _make_loop(self) -> asyncio.AbstractEventLoop:
        """With poll, which keeps no descriptor of its own: epoll descriptors share one inode, so
        nobody could say whose one is."""
        import asyncio
        import selectors

        loop: Any = asyncio.SelectorEventLoop(selectors.PollSelector())
        self._pair = [(sock, identity_of(sock.fileno())) for sock in (loop._ssock, loop._csock)]
        return loop  # type: ignore[no-any-return]

    def leave_to_parent(self) -> None:
        """In a forked child: the loop is its parent's."""
        if self._loop is not None:
            self._loop.close = lambda: None  # type: ignore[method-assign]

    @property
    def is_here(self) -> bool:
        """This is its thread."""
        return self._thread is threading.current_thread()

    def run(self, work: Coroutine[Any, Any, None]) -> bool:
        with self._lock:
            self._new.append(work)
            if self._thread is None:
                self._thread = _started(self._serve)
                if self._thread is None:
                    self._new.pop().close()
                    return False
            elif self._loop is not None:
                self._loop.call_soon_threadsafe(self._take)
            return True

    def _take(self) -> None:
        """In the loop."""
        import asyncio

        loop = asyncio.get_running_loop()
        while self._new:
            task = loop.create_task(self._new.popleft())
            _tasks.add(task)
            task.add_done_callback(_tasks.discard)

    def _serve(self) -> None:
        if self._loop is None or not self._is_whole():
            self._loop = self._make_loop()
        while True:
            self._loop.run_until_complete(self._finish_tasks())
            with self._lock:
                if not self._new:
                    self._thread = None
                    return

    async def _finish_tasks(self) -> None:
        """Those that functions have made themselves, too."""
        import asyncio

        self._take()
        own = asyncio.current_task()
        while others := [task for task in asyncio.all_tasks() if task is not own]:
            await asyncio.wait(others, return_when=asyncio.FIRST_COMPLETED)


_tasks: set[asyncio.Task[None]] = set()  # a loop keeps only weak references to its own


def _started(work: Callable[[], None]) -> threading.Thread | None:
    """A thread that does not hold up the end of the program; None: it is ending."""
    thread = threading.Thread(target=work, name="stepscope-alerts", daemon=True)
    try:
        thread.start()
    except RuntimeError:
        return None
    return thread


def _is_async(callback: AlertCallback) -> bool:
    call = getattr(callback, "__call__", None)  # noqa: B004 - an object may have an async one
    return inspect.iscoroutinefunction(callback) or inspect.iscoroutinefunction(call)
