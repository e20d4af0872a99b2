"""Follows the garbage collections of this process."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Iterable

from stepscope.analyze.gc_use import Collection, GcFold
from stepscope.model.event import Batch
from stepscope.model.memory import GcUse
from stepscope.model.process import ProcessInfo
from stepscope.session.inside import Inside, inside

__all__ = ["GcWatch"]

_NOT_ENDED = 1 << 62


class GcWatch:
    """From `start` to `stop`, or on. Read with `fold`, which takes in what is new."""

    def __init__(self) -> None:
        self._session: Inside | None = None
        self._fold = GcFold()
        self._seen = 0
        self.forked: weakref.WeakMethod[Callable[[], None]] | None = None  # called in the child

    @property
    def is_running(self) -> bool:
        return self._session is not None

    def start(self) -> None:
        """Again: from now on."""
        self.stop()
        session = inside()
        session.follow(self)
        self._fold = GcFold(session.recorder.now_ns())
        self._seen = 0
        self._session = session

    def stop(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            end_ns = session.recorder.now_ns()
            session.unfollow(self)
            self._fold.end_ns = end_ns

    @property
    def fold(self) -> GcFold:
        if self._session is not None:
            self._session.pull()
        return self._fold

    @property
    def wall_ns(self) -> int:
        """How long it has been watching."""
        if self._fold.end_ns != _NOT_ENDED:
            return self._fold.end_ns - self._fold.start_ns
        return 0 if self._session is None else self._session.recorder.now_ns() - self._fold.start_ns

    def use(self) -> GcUse:
        """What there was so far; its share is of the time it has been watching."""
        return self.fold.get(self.wall_ns)

    def news(self) -> list[Collection]:
        """Those that were not given out yet, as far as they were read back and are recent."""
        fresh = self._fold.count - self._seen
        self._seen += fresh
        return list(self._fold.recent)[-fresh:] if fresh else []

    # ---- a follower of the session ----

    def update(self, process: ProcessInfo, batches: Iterable[Batch]) -> None:
        if process.pid == os.getpid():
            for batch in batches:
                self._fold.update(batch)

    def after_fork(self) -> None:
        """What was collected is the parent's."""
        if self._session is not None:
            self._fold = GcFold(self._session.recorder.now_ns())
            self._seen = 0
        forked = None if self.forked is None else self.forked()
        if forked is not None:
            forked()
