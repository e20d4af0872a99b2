"""Turns frames into Arrow while a run goes on, and the rest at its end.

A frames file is deleted only when all of it stands in the stream. Whatever goes wrong (a full disk,
a vanished folder), the frames stay where they are, readers take them from there, and it is tried
again later.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

from stepscope.errors import FormatError, RunNotFoundError
from stepscope.model.event import Batch
from stepscope.store.arrow import ArrowWriter, Position
from stepscope.store.frames import FramesReader
from stepscope.store.layout import Segment, frames_number, part_number, part_path, segments
from stepscope.store.parts import PartsReader
from stepscope.store.rotation import Rotation, part_bytes_for

__all__ = ["Converter"]

_BATCH_ROWS = 16_384  # small batches of the recorder are joined up to this size
_OPEN_STREAMS = 32  # files that are held open; loaders may start thousands of workers
_LONGEST_PAUSE = 64  # calls, before something that failed is tried again


class _Stream:
    """The conversion of one process."""

    def __init__(self, segment: Segment, part_bytes: int) -> None:
        self._base, self._part_bytes = segment.base, part_bytes
        self._writer: ArrowWriter | None = None
        self._covers = PartsReader(segment).position()
        self._next_part = part_number(segment.arrows[-1]) + 1 if segment.arrows else 0

    def take(self, path: Path) -> None:
        """Converts what is new of a whole file, then deletes it."""
        number = frames_number(path)
        reader = FramesReader(path, after=self._done_of(number))
        waiting: list[Batch] = []
        for batch in reader.batches():
            waiting.append(batch)
            if sum(each.count for each in waiting) >= _BATCH_ROWS:
                self._write(reader, waiting, number)
                waiting = []
        if waiting:
            self._write(reader, waiting, number)
        if reader.process is not None and not reader.damage and not reader.lost_events:
            path.unlink()

    def _done_of(self, number: int) -> int:
        """How much of that frames file stands in the stream."""
        file, offset = self._covers
        return offset if number == file else 0 if number > file else sys.maxsize

    def _write(self, reader: FramesReader, batches: list[Batch], number: int) -> None:
        if self._writer is None:
            assert reader.process is not None  # no batch comes before the header
            path = part_path(self._base, self._next_part)
            self._writer = ArrowWriter(path, reader.process)
            self._next_part += 1
        covers = Position(number, reader.offset)
        try:
            self._writer.write(batches, covers)
        except OSError:
            if not self._writer.complete_bytes:
                self._next_part -= 1  # there is nothing in it: the next attempt begins it anew
            self._writer = None  # it has closed itself
            raise
        self._covers = covers
        if self._writer.complete_bytes >= self._part_bytes:
            self.close()

    def close(self) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()


class Converter:
    """Converts the frames of a run; each problem stands in `problems` as one line.

    limit_bytes: what the run may take on disk (rotation.py); 0: any.
    """

    def __init__(self, run: Path, limit_bytes: int = 0) -> None:
        self._run = run
        self._rotation = Rotation(run, limit_bytes) if limit_bytes else None
        self._part_bytes = part_bytes_for(limit_bytes)
        self._streams: dict[Path, _Stream] = {}  # the one that was used last stands last
        self._ours: set[Path] = set()  # begun by us
        self._pauses: dict[Path, tuple[int, int]] = {}  # calls still to wait, and next time
        self.problems: list[str] = []

    def convert(self, may_take: Callable[[Path, Path], bool]) -> None:
        """Takes the files that the caller allows, by the base of the process and the file."""
        try:
            present = segments(self._run)
        except RunNotFoundError:
            return
        there = {segment.base for segment in present}
        self._ours &= there
        self._pauses = {base: pause for base, pause in self._pauses.items() if base in there}
        took = False
        for segment in present:
            files = [path for path in segment.frames if may_take(segment.base, path)]
            if files and not self._is_foreign(segment) and not self._waits(segment.base):
                self._guarded(segment, files)
                took = True
        if took:
            self._rotate()
            pa.default_memory_pool().release_unused()  # there is nothing to do for a while

    def close(self) -> None:
        for base in list(self._streams):
            self._close(base)
        self._rotate()

    def _rotate(self) -> None:
        if self._rotation is None:
            return
        try:
            self._rotation.keep_within(self._streams)
        except (FormatError, RunNotFoundError, OSError) as error:
            self._problem(error, "the run grows beyond its limit on disk")

    def _is_foreign(self, segment: Segment) -> bool:
        """A stream that another launcher began: leave both as they are."""
        return bool(segment.arrows) and segment.base not in self._ours

    def _waits(self, base: Path) -> bool:
        left, following = self._pauses.get(base, (0, 0))
        if left:
            self._pauses[base] = (left - 1, following)
        return left > 0

    def _guarded(self, segment: Segment, files: list[Path]) -> None:
        base = segment.base
        try:
            stream = self._streams.pop(base, None) or _Stream(segment, self._part_bytes)
            self._streams[base] = stream
            self._ours.add(base)
            for path in files:
                stream.take(path)
        except (FormatError, OSError) as error:
            following = min(_LONGEST_PAUSE, 2 * self._pauses.get(base, (0, 1))[1])
            self._pauses[base] = (following, following)
            self._problem(error)
        else:
            self._pauses.pop(base, None)
            if len(files) == len(segment.frames):  # nobody writes another: it has ended
                self._close(base)
        if len(self._streams) > _OPEN_STREAMS:
            self._close(next(iter(self._streams)))

    def _close(self, base: Path) -> None:
        try:
            self._streams.pop(base).close()
        except OSError as error:
            self._problem(error)

    def _problem(self, error: Exception, what: str = "events were kept as frames") -> None:
        text = (
            os.strerror(error.errno) if isinstance(error, OSError) and error.errno else str(error)
        )
        line = f"{what}: {text}"
        if line not in self.problems:
            self.problems.append(line)
