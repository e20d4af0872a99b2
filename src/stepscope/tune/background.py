"""Writes files in a thread of its own, in order; a reader never sees half of one."""

from __future__ import annotations

import os
import stat
import threading
import time
from collections.abc import Callable
from typing import Final

__all__ = ["Background", "Job"]

MOST_WAITING: Final = 2  # besides the one that is being written
RESTS: Final = 4  # times as long as writing it took
_UNFINISHED: Final = ".stepscope-part"


class Job:
    """A file to be written. write(path) writes it somewhere; release() is called when nobody needs
    what it is made of any more."""

    def __init__(
        self, path: str, write: Callable[[str], None], release: Callable[[], None]
    ) -> None:
        self.path, self.write, self.release = path, write, release
        self.unfinished = path + _UNFINISHED
        self.is_final = False  # it takes its place now

    def touches(self, path: str | None) -> bool:
        """Whether somebody who looks at `path` (None: anything) would see this file."""
        return path is None or self.path == path or self.path.startswith(path.rstrip("/") + "/")


class Background:
    """One thread. A version of a file that a newer one replaces before it was begun is not written.

    What could not be written is written once more by the program's own thread, at the next call:
    there it raises what it would have raised.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._lstat, self._stat = os.lstat, os.stat  # of before anybody stands in front of them
        self._clock = clock
        self._begin()

    def _begin(self) -> None:
        self._turn = threading.Condition()
        self._waiting: list[Job] = []
        self._active: Job | None = None
        self._failed: list[Job] = []
        self._thread: threading.Thread | None = None
        self._wanted = 0  # threads that wait for a file
        self._is_idle = False  # the thread waits for work: only then it is woken, it takes turns
        self._rests: dict[str, float] = {}  # path → until when a new version of it may wait

    @property
    def is_busy(self) -> bool:
        return bool(self._waiting or self._active or self._failed)

    def after_fork(self) -> None:
        """In a child: the files are its parent's to write."""
        self._begin()

    def put(self, job: Job) -> None:
        """Waits while too many are before it."""
        self.mend()
        with self._turn:
            self._drop_older(job)
            self._wait_while(lambda: len(self._waiting) >= MOST_WAITING)
            self._waiting.append(job)
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._work, name="stepscope-saving", daemon=True
                )
                self._thread.start()
            if self._is_idle:
                self._turn.notify_all()

    def _drop_older(self, job: Job) -> None:
        for older in [one for one in self._waiting if one.path == job.path and one is not job]:
            self._waiting.remove(older)
            older.release()

    def wait(self, path: str | None = None) -> None:
        """Until what is pending at `path`, or in that folder, is there. None: everything."""
        with self._turn:
            self._wait_while(lambda: any(one.touches(path) for one in self._all()))
        self.mend()

    def _wait_while(self, holds: Callable[[], bool]) -> None:
        self._wanted += 1
        try:
            while holds():
                self._turn.notify_all()
                self._turn.wait()
        finally:
            self._wanted -= 1

    def mend(self) -> None:
        """Raises what writing raises."""
        while self._failed:
            job = self._failed.pop(0)
            try:
                job.write(job.path)
            finally:
                job.release()

    def rename(self, source: str, target: str) -> bool:
        """A pending file gets another name. False: it is none, or that is not so simple."""
        with self._turn:
            found = [one for one in self._all() if one.path == source]
            if len(found) != 1 or found[0].is_final or not self._is_simple(source, target):
                return False
            found[0].path = target
            if found[0] is not self._active:
                self._drop_older(found[0])
            if self._wanted:
                self._turn.notify_all()
            return True

    def _is_simple(self, source: str, target: str) -> bool:
        """Nothing lies at the old name, and the new one is that of a file on the same disk."""
        try:
            self._lstat(source)
            return False
        except OSError:
            pass
        try:
            folders = [self._stat(os.path.dirname(one)) for one in (source, target)]  # noqa: PTH120
            if folders[0].st_dev != folders[1].st_dev or not os.access(
                os.path.dirname(target),  # noqa: PTH120
                os.W_OK,
            ):
                return False
        except OSError:
            return False
        try:
            return stat.S_ISREG(self._lstat(target).st_mode)
        except FileNotFoundError:
            return True
        except OSError:
            return False

    def _all(self) -> list[Job]:
        return self._waiting if self._active is None else [self._active, *self._waiting]

    def _work(self) -> None:
        while True:
            with self._turn:
                while not self._waiting or (rest_s := self._rest_s()) > 0:
                    self._is_idle = not self._waiting
                    self._turn.wait(rest_s if self._waiting else None)
                self._is_idle = False
                # At no moment it is in neither place: `is_busy` asks without a lock.
                job = self._active = self._waiting[0]
                del self._waiting[0]
                began = self._clock()
            error = self._written(job)
            with self._turn:
                now = self._clock()
                self._rests = {job.path: now + RESTS * (now - began)}
                if error is not None:
                    self._failed.append(job)
                self._active = None
                if self._wanted:
                    self._turn.notify_all()
            if error is None:
                job.release()

    def _rest_s(self) -> float:
        """A file that is saved again and again is not written all the time: the training needs the
        CPUs. Whoever waits ends the rest."""
        if self._wanted:
            return 0.0
        return self._rests.get(self._waiting[0].path, 0.0) - self._clock()

    def _written(self, job: Job) -> BaseException | None:
        try:
            job.write(job.unfinished)
            with self._turn:
                job.is_final = True
            self._keep_mode(job)
            os.replace(job.unfinished, job.path)  # noqa: PTH105 - strings all along
        except BaseException as error:  # noqa: BLE001 - raised where the program waits for it
            try:
                os.unlink(job.unfinished)  # noqa: PTH108
            except OSError:
                pass
            return error
        return None

    def _keep_mode(self, job: Job) -> None:
        try:
            mode = self._stat(job.path).st_mode
        except OSError:
            return
        os.chmod(job.unfinished, stat.S_IMODE(mode))  # noqa: PTH101
