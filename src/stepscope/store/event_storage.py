"""Where the events of a memory profiler can be kept: in memory, or in a run folder."""

from __future__ import annotations

import os
import threading
from bisect import bisect_left
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from stepscope.descriptor import Descriptor
from stepscope.errors import UsageError
from stepscope.model.event import COLUMNS, Batch
from stepscope.model.memory_events import EventRange
from stepscope.record.frames import EVENTS, FILE_BYTES, HEADER, frame, names_frame
from stepscope.store.batch_index import BatchIndex
from stepscope.store.files import PRIVATE_FOLDER

__all__ = ["EventFiles", "InMemoryStorage"]

MOST_EVENTS = 1 << 18  # 66 bytes each


class _Kept(NamedTuple):
    batch: Batch
    first_ns: int
    last_ns: int
    low_step: int
    high_step: int


class InMemoryStorage:
    """Keeps the last `max_events` events, in columns."""

    def __init__(self, max_events: int = MOST_EVENTS) -> None:
        if max_events < 1:
            raise UsageError(f"max_events={max_events} is not possible: use 1 or more.")
        self._max_events = max_events
        self._kept: deque[_Kept] = deque()
        self._count = self._dropped = 0
        self._lock = threading.Lock()

    def store_events(self, batch: Batch) -> None:
        with self._lock:
            self._kept.append(_Kept(batch, *_extent(batch)))
            self._count += batch.count
            while self._count > self._max_events and len(self._kept) > 1:
                gone = self._kept.popleft().batch
                self._count -= gone.count
                self._dropped += gone.count

    def load_events(self, wanted: EventRange) -> Iterator[Batch]:
        with self._lock:
            kept = list(self._kept)
        first = bisect_left(kept, wanted.start_ns, key=lambda one: one.last_ns)
        return (one.batch for one in kept[first:] if wanted.touches(*one[1:]))

    @property
    def dropped_events(self) -> int:
        return self._dropped

    def close(self) -> None:
        """What is there stays."""


class EventFiles:
    """Writes events to `base.NNNN.frames`, which Trace reads as those of a process.

    What the disk has no room for, what comes after the end, and what comes in a forked child (the
    files are the parent's) is counted as dropped.
    """

    def __init__(self, base: Path, header: bytes) -> None:
        self._base, self._header = base, header
        self._lock = threading.Lock()
        self._pid = os.getpid()
        self._file: Descriptor | None = None
        self._number = self._bytes = self._lost = 0
        self._told: set[int] = set()  # names that stand in this file
        self._index = BatchIndex(base)
        try:
            base.parent.mkdir(PRIVATE_FOLDER, parents=True, exist_ok=True)
            self._open()
        except OSError as error:
            raise UsageError(
                f"{base.parent} cannot be written to ({error.strerror}): choose another folder."
            ) from error

    def _open(self) -> None:
        path = f"{self._base}.{self._number:04d}.frames"
        self._file = Descriptor.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        self._bytes = 0
        self._told = set()

    def store_events(self, batch: Batch) -> None:
        if os.getpid() != self._pid:
            self._lost += batch.count
            return
        with self._lock:
            if self._file is None:
                self._lost += batch.count
                return
            try:
                if not self._file.is_ours:  # the program has closed it
                    self._next()
                self._write(self._file, batch)
            except OSError:
                self._lost += batch.count
                self._take_back(self._file)

    def _next(self) -> None:
        self._number += 1
        self._open()

    def _take_back(self, file: Descriptor) -> None:
        """The frame that could not be written as a whole."""
        self._told = set()
        with suppress(OSError):
            os.ftruncate(file.fileno(), self._bytes)
            os.lseek(file.fileno(), self._bytes, os.SEEK_SET)

    def _write(self, file: Descriptor, batch: Batch) -> None:
        used = {*batch.columns["name"].tolist(), *batch.columns["text"].tolist()} - {0}
        fresh = used - self._told
        columns = b"".join(batch.columns[column.name].tobytes() for column in COLUMNS)
        head = batch.count.to_bytes(4, "little") + bytes(4)
        parts = [
            frame(HEADER, self._header) if not self._bytes else b"",
            names_frame((number, batch.names[number]) for number in sorted(fresh))
            if fresh
            else b"",
            frame(EVENTS, head + columns),
        ]
        data = memoryview(b"".join(parts))
        written = 0
        while written < len(data):
            written += os.write(file.fileno(), data[written:])
        self._bytes += len(data)
        self._told |= fresh
        if self._bytes >= FILE_BYTES:
            file.close()
            self._next()

    def load_events(self, wanted: EventRange) -> Iterator[Batch]:
        with self._lock:
            self._index.refresh()
        return self._index.load(wanted)

    @property
    def dropped_events(self) -> int:
        return self._lost + self._index.dropped_events

    def close(self) -> None:
        with self._lock:
            file, self._file = self._file, None
            if file is not None:
                file.close()


def _extent(batch: Batch) -> tuple[int, int, int, int]:
    times, steps = batch.columns["time_ns"], batch.columns["step"].tolist()
    return times[0], times[batch.count - 1], min(steps), max(steps)
