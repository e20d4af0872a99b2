"""Turns frames into Arrow while a run goes on, and the rest at its end.

A frames file is deleted only when all of it stands in the stream. Whatever goes wrong (a full disk,
a vanished folder), the frames stay where they are and readers take them from there.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from stepscope.errors import FormatError, RunNotFoundError
from stepscope.model.event import Batch
from stepscope.store.arrow import ArrowWriter, Position
from stepscope.store.frames import FramesReader
from stepscope.store.layout import Segment, frames_number, segments

__all__ = ["Converter"]

_BATCH_ROWS = 16_384  # small batches of the recorder are joined up to this size


class _Stream:
    """The conversion of one process."""

    def __init__(self, segment: Segment) -> None:
        self._base = segment.base
        self._writer: ArrowWriter | None = None
        # A stream that is there already was begun by another launcher: leave both as they are.
        self.failed = "begun by another process" if segment.arrows else ""

    def take(self, path: Path) -> None:
        """Converts a whole file, then deletes it."""
        reader = FramesReader(path)
        number = frames_number(path)
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

    def _write(self, reader: FramesReader, batches: list[Batch], number: int) -> None:
        if self._writer is None:
            assert reader.process is not None  # no batch comes before the header
            self._writer = ArrowWriter(
                self._base.with_name(f"{self._base.name}.arrows"), reader.process
            )
        self._writer.write(batches, Position(number, reader.offset))

    def close(self) -> None:
        if self._writer is not None and not self.failed:
            self._writer.close()


class Converter:
    """Converts the frames of a run; each problem stands in `problems` as one line."""

    def __init__(self, run: Path) -> None:
        self._run = run
        self._streams: dict[Path, _Stream] = {}
        self.problems: list[str] = []

    def convert(self, may_take: Callable[[Path, Path], bool]) -> None:
        """Takes the files that the caller allows, by the base of the process and the file."""
        try:
            present = segments(self._run)
        except RunNotFoundError:
            return
        for segment in present:
            files = [path for path in segment.frames if may_take(segment.base, path)]
            if files:
                self._guarded(segment, files)

    def close(self) -> None:
        for stream in self._streams.values():
            try:
                stream.close()
            except OSError as error:
                self._problem(error)

    def _guarded(self, segment: Segment, files: list[Path]) -> None:
        stream = self._streams.get(segment.base)
        if stream is None:
            stream = self._streams[segment.base] = _Stream(segment)
        if stream.failed:
            return
        try:
            for path in files:
                stream.take(path)
        except (FormatError, OSError) as error:
            stream.failed = str(error)
            self._problem(error)

    def _problem(self, error: Exception) -> None:
        text = (
            os.strerror(error.errno) if isinstance(error, OSError) and error.errno else str(error)
        )
        self.problems.append(f"events were kept as frames: {text}")
