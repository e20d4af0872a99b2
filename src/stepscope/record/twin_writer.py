"""The twin's writer: the same files as native/writer.c, from a Python thread."""

from __future__ import annotations

import errno
import os
import threading
import time
from typing import TYPE_CHECKING, Any

from stepscope.descriptor import Descriptor
from stepscope.record.frames import (
    FILE_BYTES,
    HEADER,
    STATUS,
    STATUS_MAGIC,
    events_frame,
    frame,
    names_frame,
)

if TYPE_CHECKING:
    from stepscope.record.twin import TwinCore

__all__ = ["TwinWriter"]

FILES_KEPT = 16  # beyond the first, where no launcher has converted them a minute later
FILES_AT_MOST = 64  # in any case
MINUTE_NS = 60_000_000_000
OPEN_SPAN_AGE_NS = 1_000_000_000
BATCH_EVENTS = 2000
OWN_SAMPLES = 6
SAMPLE = 2


class TwinWriter:
    """Writes what the core holds, once a second or when a batch is full."""

    def __init__(
        self,
        core: TwinCore,
        base: str,
        header: bytes,
        status: str,
        own: tuple[int, int, int, int, int, int],
    ) -> None:
        self._core, self._base, self._header, self._own = core, base, header, own
        self.pid = os.getpid()
        self.lost = self.last_errno = self.writer_cpu_ns = 0
        self._lock = threading.Lock()
        self._flusher = 0  # the thread that holds it
        self._life = threading.Lock()  # starting and stopping; never taken by the thread itself
        self._wake = threading.Event()
        self._stop = False
        self._thread: threading.Thread | None = None
        self._file: Descriptor | None = None
        self._file_number = self._file_bytes = self._file_events = self._names_written = 0
        self._left: list[tuple[int, int, int]] = []  # full files: number, events, when it was left
        # Who gave us a status page, a launcher, converts files, and takes them away.
        self._files_kept = FILES_KEPT if status else FILES_AT_MOST
        self._status: Descriptor | None = None
        if status:
            try:
                self._status = Descriptor.open(status, os.O_WRONLY | os.O_CREAT)
            except OSError as error:
                self.last_errno = error.errno or 0

    def start(self) -> None:
        with self._life:
            if self._thread is None and self.pid == os.getpid():
                self._stop = False
                self._thread = threading.Thread(target=self._main, name="stepscope", daemon=True)
                self._thread.start()

    def pause(self) -> None:
        with self._life:
            thread, self._thread = self._thread, None
            if thread is not None and self.pid == os.getpid():
                self._stop = True
                self._wake.set()
                thread.join()

    def wake(self) -> None:
        self._wake.set()

    def _main(self) -> None:
        now_ns, core, vitals = time.monotonic_ns, self._core, self._core.vitals
        flush_at_ns = now_ns() + core.pace_ns[0]
        while not self._stop:
            wanted = self._wake.wait(max(0, min(flush_at_ns, vitals.due_ns) - now_ns()) / 1e9)
            self._wake.clear()
            before_ns = time.thread_time_ns()
            vitals.sample(now_ns())
            self.writer_cpu_ns += time.thread_time_ns() - before_ns
            # As in native/writer.c: what is nearly due goes along with a sample.
            slack_ns = min(vitals.interval_ns, core.pace_ns[0]) // 2
            if wanted or now_ns() >= flush_at_ns - slack_ns:
                self.flush()
                flush_at_ns = now_ns() + core.pace_ns[0]

    def close(self) -> None:
        self.pause()
        self.flush()
        self.forget()

    def forget(self) -> None:
        self._leave_file()
        if self._status is not None:
            self._status.close()
            self._status = None

    # ---- one flush ----

    def flush(self) -> None:
        """Within a flush it does nothing: a garbage collection in here may ask for one."""
        me = threading.get_ident()
        if self.pid != os.getpid() or self._flusher == me:
            return
        with self._lock:
            self._flusher = me
            try:
                self._flush_held()
            finally:
                self._flusher = 0

    def _flush_held(self) -> None:
        cpu_before = time.thread_time_ns()
        room = BATCH_EVENTS - OWN_SAMPLES
        rows = self._core._take(room)
        while len(rows) == room:
            self._write(rows)
            rows = self._core._take(room)
        rows += self._core._open_rows(OPEN_SPAN_AGE_NS)[: room - len(rows)]
        if rows:
            self._write(rows + self._own_rows())
        while rows := self._core._take_tracked(room):
            self._write(rows)
        self._write_status()
        self.writer_cpu_ns += time.thread_time_ns() - cpu_before

    def _own_rows(self) -> list[tuple[Any, ...]]:
        """Its own cost and losses are events too."""
        counters = self._core.counters()
        keys = ("dropped", "lost", "writer_cpu_ns", "calls", "probes", "clocks")
        now, step = self._core.now_ns(), self._core._step
        return [
            (now, 0, -1, -1, 0, float(counters[key]), name, 0, step, self.pid, SAMPLE, 0)
            for name, key in zip(self._own, keys, strict=True)
            if name
        ]

    def _write(self, rows: list[tuple[Any, ...]]) -> None:
        try:
            self._notice_vanished()
            parts = []
            if self._file is None:
                self._file = self._open_file()
            if self._file_bytes == 0:  # also when the first write to it failed
                self._names_written = 0
                parts.append(frame(HEADER, self._header))
            fresh = self._core._names_after(self._names_written)
            if fresh:
                parts.append(names_frame(fresh))
            parts.append(events_frame(rows))
            self._write_all(self._file, b"".join(parts))
        except OSError as error:
            self._batch_lost(len(rows), error)
            return
        if fresh:
            self._names_written = fresh[-1][0]
        self._file_events += len(rows)
        if self._file_bytes >= FILE_BYTES:
            self._finish_file()

    def _write_all(self, file: Descriptor, data: bytes) -> None:
        view = memoryview(data)
        while view:
            done = os.write(file.fileno(), view)
            if done == 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            view = view[done:]
        self._file_bytes += len(data)

    def _path(self, number: int) -> str:
        return f"{self._base}.{number:04d}.frames"

    def _finish_file(self) -> None:
        """It is full: the next batch begins another. The first one stays."""
        full = (self._file_number, self._file_events, self._core.now_ns())
        self._leave_file()
        self._file_number += 1
        if full[0]:
            self._drop_old_files(full[2])
            self._left.append(full)

    def _drop_old_files(self, now_ns: int) -> None:
        """Where the launcher is gone nobody takes files away; the disk is the program's, too. Who
        profiles from inside the program lets go of them by itself, as long as it looks at all."""
        while len(self._left) >= self._files_kept:
            number, events, left_ns = self._left[0]
            if len(self._left) < FILES_AT_MOST and now_ns - left_ns < MINUTE_NS:
                return
            del self._left[0]
            try:
                os.unlink(self._path(number))  # noqa: PTH108 (no pathlib here)
            except OSError:
                continue  # somebody has taken it
            self.lost += events

    def _open_file(self) -> Descriptor:
        """Makes the folder of the file where it is missing, but never the run folder itself."""
        path = self._path(self._file_number)
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        try:
            return Descriptor.open(path, flags)
        except FileNotFoundError:
            try:
                os.mkdir(os.path.dirname(path), 0o700)  # noqa: PTH102, PTH120 (no pathlib here)
            except FileExistsError:
                pass  # another process of the run was quicker
            return Descriptor.open(path, flags)

    def _notice_vanished(self) -> None:
        """A file that was deleted under us takes writes that nobody will ever read."""
        if self._file is None:
            return
        try:
            if os.fstat(self._file.fileno()).st_nlink > 0:
                return
            self.lost += self._file_events
            self.last_errno = errno.ENOENT
        except OSError:  # the program has closed it; what was written stays
            self.last_errno = errno.EBADF
        self._leave_file()
        self._file_number += 1

    def _batch_lost(self, count: int, error: OSError) -> None:
        self.lost += count
        self.last_errno = error.errno or 0
        self._names_written = 0
        if self._file is None:
            return
        try:
            # Cut off the torn frame, so that what comes after it can be read.
            os.ftruncate(self._file.fileno(), self._file_bytes)
            os.lseek(self._file.fileno(), self._file_bytes, os.SEEK_SET)
        except OSError:
            self._leave_file()
            self._file_number += 1

    def _leave_file(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
        self._file_bytes = self._file_events = 0

    def _write_status(self) -> None:
        if self._status is None or not self._status.is_ours:
            return
        counters = self._core.counters()
        page = STATUS.pack(
            STATUS_MAGIC,
            self.pid,
            counters["recorded"],
            counters["dropped"],
            counters["lost"],
            self.last_errno,
            self._core._step,
            self._core._outermost_open().encode()[:63],
        )
        try:
            os.pwrite(self._status.fileno(), page, 0)
        except OSError as error:
            self.last_errno = error.errno or 0
