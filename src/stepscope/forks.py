"""Threads of ours around a fork of the program: it finds none.

Python (3.12 on) warns of threads in a process that forks, and a child would inherit the locks that
they hold.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

__all__ = ["Forks"]

_T = TypeVar("_T")


class Forks(Generic[_T]):
    """Things of one kind that have threads, none of which it keeps alive.

    stop: called before a fork, with those that are running. resume: with each of them in the
    parent. forget: with each of them in the child, which knows none from then on.

    Each kind has an object of its own: what is registered last is stopped first, so a thread that
    needs something which another kind holds during a fork is gone by then.
    """

    def __init__(
        self,
        stop: Callable[[Sequence[_T]], None],
        resume: Callable[[_T], None],
        forget: Callable[[_T], None] = lambda one: None,
        is_running: Callable[[_T], bool] = lambda one: True,
    ) -> None:
        self._stop, self._resume, self._forget = stop, resume, forget
        self._is_running = is_running
        self._known: weakref.WeakSet[_T] = weakref.WeakSet()
        self._stopped: list[_T] = []
        self._is_registered = False

    def mind(self, one: _T) -> None:
        """Until it is gone. With the first one the system is told, which cannot be taken back."""
        self._known.add(one)
        if not self._is_registered:
            self._is_registered = True
            os.register_at_fork(
                before=self._before, after_in_parent=self._in_parent, after_in_child=self._in_child
            )

    def _before(self) -> None:
        running = [one for one in self._known if self._is_running(one)]
        # Behind what another thread stopped that is about to fork too; and noted first, so that
        # they go on even if stopping them is interrupted.
        self._stopped.extend(running)
        self._stop(running)

    def _in_parent(self) -> None:
        stopped, self._stopped = self._stopped, []
        for one in stopped:
            self._resume(one)

    def _in_child(self) -> None:
        self._known.clear()
        stopped, self._stopped = self._stopped, []
        for one in stopped:
            self._forget(one)
