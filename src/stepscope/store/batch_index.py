"""Where in the files of a process which events lie, so that a few can be read out of many."""

from __future__ import annotations

import os
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from stepscope.errors import FormatError
from stepscope.model import names
from stepscope.model.event import Batch
from stepscope.model.memory_events import EventRange
from stepscope.record.frames import ROW_BYTES
from stepscope.store.frames import FramesReader, batch_of
from stepscope.store.layout import frames_number

__all__ = ["BatchIndex"]


class _Place(NamedTuple):
    path: Path
    offset: int  # of the payload
    rows: int
    first_ns: int
    last_ns: int
    low_step: int
    high_step: int
    names: Mapping[int, str]


class BatchIndex:
    """Of the batches of tracked memory in `base.NNNN.frames`. Grows as the files do.

    A batch that was seen and whose file is gone counts as dropped.
    """

    def __init__(self, base: Path) -> None:
        self.base = base
        self._places: list[_Place] = []
        self._reader: FramesReader | None = None
        self.dropped_events = 0

    def refresh(self) -> None:
        """Take in what was written since the last time."""
        reached = -1 if self._reader is None else frames_number(self._reader.path)
        for path in self._files():
            if frames_number(path) < reached:
                continue
            if self._reader is None or self._reader.path != path:
                self._reader = FramesReader(path)
            self._take(self._reader)

    def _files(self) -> list[Path]:
        found = self.base.parent.glob(f"{self.base.name}.*.frames")
        return sorted((path for path in found if _has_number(path)), key=frames_number)

    def _take(self, reader: FramesReader) -> None:
        try:
            for batch in reader.batches():
                if batch.names[batch.columns["name"][0]] != names.TRACKED_TOTALS:
                    continue
                payload_bytes = 8 + batch.count * ROW_BYTES
                times, steps = batch.columns["time_ns"], batch.columns["step"].tolist()
                self._places.append(
                    _Place(
                        reader.path,
                        reader.offset - (payload_bytes + 7 & ~7),
                        batch.count,
                        times[0],
                        times[batch.count - 1],
                        min(steps),
                        max(steps),
                        reader.names,
                    )
                )
        except FormatError:  # somebody else's file: what was read up to there stays
            return

    def load(self, wanted: EventRange) -> Iterator[Batch]:
        """Those that hold wanted events. Times of one tracker only grow, and two of them that are
        written in turns overlap by less than a flush: the search begins that much earlier."""
        start_ns = wanted.start_ns - _OVERLAP_NS
        first = bisect_left(self._places, start_ns, key=lambda place: place.last_ns)
        for place in self._places[first:]:
            if place.first_ns > wanted.end_ns + _OVERLAP_NS:
                return
            if wanted.touches(place.first_ns, place.last_ns, place.low_step, place.high_step):
                batch = _read(place)
                if batch is None:
                    self._forget(place.path)
                else:
                    yield batch

    def _forget(self, path: Path) -> None:
        gone = [place for place in self._places if place.path == path]
        self.dropped_events += sum(place.rows - 1 for place in gone)
        self._places = [place for place in self._places if place.path != path]


_OVERLAP_NS = 10_000_000_000


def _has_number(path: Path) -> bool:
    return path.name.rsplit(".", 2)[1].isdigit()


def _read(place: _Place) -> Batch | None:
    payload_bytes = 8 + place.rows * ROW_BYTES
    try:
        file = os.open(place.path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        payload = os.pread(file, payload_bytes, place.offset)
    finally:
        os.close(file)
    return batch_of(memoryview(payload), place.names) if len(payload) == payload_bytes else None
