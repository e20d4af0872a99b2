"""The thread that asks now and then whether somebody wants a capture. A fork finds it gone."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Final, Protocol

from stepscope.collect.stacks import mind_forks
from stepscope.record.threads import join_fully

__all__ = ["CaptureThread"]

IDLE_S: Final = 1.0  # between two looks, of less than 0.1 ms each
BUSY_S: Final = 0.05  # while a capture is under way


class Lock(Protocol):
    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool: ...
    def release(self) -> None: ...


class CaptureThread:
    """`tick` is called in it, and tells whether to look more often.

    It ends before a fork and begins again after it. Before: while nobody is in the middle of
    something (`lock`), and before the stack sampler, which it may wait for, stands still. After:
    before the stack sampler, which leaves out the threads of ours that are there when it starts.
    """

    def __init__(self, tick: Callable[[], bool]) -> None:
        self._tick = tick
        self._thread: threading.Thread | None = None
        self._rest = threading.Lock()  # held while the thread is to go on
        self._lock: Lock | None = None
        self._is_held = self._is_wanted = False

    def start(self, lock: Lock, failed: Callable[[str, BaseException], None]) -> None:
        """Once for a process."""
        self._lock, self._failed = lock, failed
        os.register_at_fork(after_in_parent=lambda: self._guarded(self._after_fork_in_parent))
        mind_forks()
        os.register_at_fork(before=lambda: self._guarded(self._before_fork))
        self._is_wanted = True
        self._begin()

    def stop(self) -> None:
        """For good."""
        self._is_wanted = False
        self._end()

    def after_fork(self, lock: Lock) -> None:
        """In a child: nobody asks there."""
        self._lock, self._thread = lock, None
        self._is_held = self._is_wanted = False

    def resume(self) -> None:
        """In a child that turned out to train."""
        self._is_wanted = True
        self._begin()

    def _begin(self) -> None:
        self._rest = threading.Lock()
        self._rest.acquire()
        self._thread = threading.Thread(
            target=self._run, args=(self._rest,), name="stepscope-captures", daemon=True
        )
        self._thread.start()

    def _end(self) -> None:
        thread, self._thread = self._thread, None
        if thread is not None and thread is not threading.current_thread():
            self._rest.release()
            join_fully(thread)

    def _run(self, rest: threading.Lock) -> None:
        """Until somebody releases what it rests on."""
        is_busy = False
        while not rest.acquire(timeout=BUSY_S if is_busy else IDLE_S):
            try:
                is_busy = self._tick()
            except Exception as error:  # noqa: BLE001 - the border with the user's program
                self._failed("captures", error)

    def _before_fork(self) -> None:
        if self._thread is None or self._lock is None:
            return
        self._is_held = self._lock.acquire()
        self._end()

    def _after_fork_in_parent(self) -> None:
        if self._is_held and self._lock is not None:
            self._is_held = False
            if self._is_wanted:
                self._begin()
            self._lock.release()

    def _guarded(self, do: Callable[[], None]) -> None:
        try:
            do()
        except Exception as error:  # noqa: BLE001
            self._failed("captures around a fork", error)
