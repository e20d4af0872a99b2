"""Samples by index, in memory or on disk, for the training process and all its workers.

Two files without a name, which go with their last user: an index, and records (records.py) one
after the other. A worker that was forked has them open; one that was spawned opens them through the
process that made them.

    index = ┌──────┬───────┬──────┬─────────┬ for each sample ───────────┐
            │ used │ limit │ kept │ not kept│ start + 1, length          │   all u64
            └──────┴───────┴──────┴─────────┴────────────────────────────┘
"""

from __future__ import annotations

import fcntl
import mmap
import os
import tempfile
import threading
from functools import partial
from typing import Any

from stepscope.descriptor import Descriptor, map_file
from stepscope.tune.loading.board import Place, open_memory
from stepscope.tune.loading.records import decoded, encoded

__all__ = ["MISSING", "SampleStore"]

MISSING: Any = object()
_USED, _LIMIT, _KEPT, _NOT_KEPT, _HEAD = 0, 1, 2, 3, 4
_ALIGNED = 64


class SampleStore:
    """count: samples of the dataset. limit_bytes: of records. where: "memory" or "disk"."""

    def __init__(self, count: int, limit_bytes: int, where: str = "memory") -> None:
        limit_bytes = max(mmap.PAGESIZE, limit_bytes)
        index = open_memory("stepscope-cache-index", 8 * (_HEAD + 2 * count))
        make = _open_disk if where == "disk" else partial(open_memory, "stepscope-cache")
        data = make(limit_bytes)
        self._places = (Place.of(index), Place.of(data))
        self._open(index, data, count)
        self._index[_LIMIT] = limit_bytes

    def _open(self, index: Descriptor, data: Descriptor, count: int) -> None:
        self.count = count
        self._index_file, self._data_file = index, data
        self._index = _mapped(index).cast("Q")
        self._data = _mapped(data)
        self._lock = threading.Lock()  # of files, locks keep out other processes only

    def __getstate__(self) -> tuple[Any, ...]:
        return (self._places, self.count)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self._places, count = state
        self.count = 0  # nothing is kept where the files cannot be reached
        try:
            index, data = (place.open() for place in self._places)
        except OSError:
            return
        self._open(index, data, count)

    @property
    def used_bytes(self) -> int:
        return self._index[_USED]

    @property
    def kept(self) -> int:
        """Samples in it."""
        return self._index[_KEPT]

    @property
    def not_kept(self) -> int:
        """Samples for which there was no room left."""
        return self._index[_NOT_KEPT]

    def close_to_more(self) -> int:
        """Keep what there is and take no more; how many bytes are free again."""
        free = self._index[_LIMIT] - self._index[_USED]
        self._index[_LIMIT] = self._index[_USED]
        return max(0, free)

    def get(self, index: int, *, copied: bool = True) -> Any:
        """The sample, or MISSING. Not copied: it is not to be written."""
        place = _HEAD + 2 * index
        start = self._index[place]
        if not start:
            return MISSING
        return decoded(self._data[start - 1 : start - 1 + self._index[place + 1]], copied=copied)

    def put(self, index: int, sample: Any, *, images: bool = False) -> bool:
        """Keep it, where there is room. NotKeptError: it cannot be; OSError: the disk is full."""
        parts = encoded(sample, images=images)
        length = sum(len(part) for part in parts)
        start = self._room(length)
        if start is None:
            return False
        at = start
        for part in parts:
            # Not through the mapping: a full disk is an error there that ends the process.
            os.pwrite(self._data_file.fileno(), part, at)
            at += len(part)
        place = _HEAD + 2 * index
        self._index[place + 1] = length
        self._index[place] = start + 1  # last: from here on it is found
        return True

    def _room(self, length: int) -> int | None:
        with self._lock:
            fcntl.lockf(self._index_file.fileno(), fcntl.LOCK_EX)
            try:
                start = -(-self._index[_USED] // _ALIGNED) * _ALIGNED
                if start + length > self._index[_LIMIT]:
                    self._index[_NOT_KEPT] += 1
                    return None
                self._index[_USED] = start + length
                self._index[_KEPT] += 1
                return start
            finally:
                fcntl.lockf(self._index_file.fileno(), fcntl.LOCK_UN)


def _open_disk(size: int) -> Descriptor:
    with tempfile.TemporaryFile(prefix="stepscope-cache-") as temporary:
        file = Descriptor(os.dup(temporary.fileno()))
    os.ftruncate(file.fileno(), size)
    return file


def _mapped(file: Descriptor) -> memoryview:
    return map_file(file.fileno(), os.fstat(file.fileno()).st_size)
