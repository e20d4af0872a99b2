"""The Arrow stream of one process, over all the parts it lies in."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from stepscope.errors import FormatError
from stepscope.model.event import Batch
from stepscope.model.process import ProcessInfo
from stepscope.store.arrow import ArrowReader, Position, to_batch
from stepscope.store.layout import Segment, part_number, segments
from stepscope.store.sound import sound

__all__ = ["PartsReader"]


class PartsReader:
    """Each batch once, in order.

    Parts may be joined while we read, or have been when their writer was killed (rotation.py): a
    batch that covers no more than what was given out already is passed over.
    """

    def __init__(self, segment: Segment) -> None:
        self._segment = segment
        self.process: ProcessInfo | None = None  # known with the first part that has a header
        self.covers = Position()  # the frames up to there have been given out
        self.lost_events = 0  # dropped because they make no sense (store/sound.py)
        self.torn: list[str] = []  # names of parts whose last batch was cut off

    def record_batches(self) -> Iterator[pa.RecordBatch]:
        waiting = list(self._segment.arrows)
        while waiting:
            path = waiting.pop(0)
            try:
                reader = ArrowReader(path)
            except FormatError:
                if path.exists():
                    raise
                waiting = self._parts_now(part_number(path))
                continue
            yield from self._new_ones(reader)
            reader.close()

    def batches(self) -> Iterator[Batch]:
        """The same events as `record_batches`, but for those that make no sense."""
        for record_batch in self.record_batches():
            batch = sound(to_batch(record_batch))
            self.lost_events += record_batch.num_rows - batch.count
            if batch.count:
                yield batch

    def position(self) -> Position:
        """Up to where the frames stand in the stream, by its last part."""
        for path in reversed(self._segment.arrows):
            reader = ArrowReader(path)
            for _ in reader.record_batches():
                pass
            reader.close()
            if reader.covers > self.covers:
                self.covers = reader.covers
                break
        return self.covers

    def _new_ones(self, reader: ArrowReader) -> Iterator[pa.RecordBatch]:
        self.process = self.process or reader.process
        for record_batch in reader.record_batches():
            if reader.covers > self.covers:
                self.covers = reader.covers
                yield record_batch
        self.covers = max(self.covers, reader.covers)
        if reader.torn:
            self.torn.append(reader.path.name)

    def _parts_now(self, gone: int) -> list[Path]:
        """From the one on that part `gone` was joined with."""
        run = self._segment.base.parent.parent
        for segment in segments(run):
            if segment.base == self._segment.base:
                before = [n for path in segment.arrows if (n := part_number(path)) < gone]
                first = max(before, default=0)
                return [path for path in segment.arrows if part_number(path) >= first]
        return []
