"""Where in the files of a process which events lie, so that a few can be read out of many."""

from __future__ import annotations

import os
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from itertools import takewhile
from pathlib import Path
from typing import NamedTuple

from stepscope.descriptor import Descriptor
from stepscope.errors import FormatError
from stepscope.model import names
from stepscope.model.event import Batch
from stepscope.model.memory_events import EventRange
from stepscope.record.frames import ROW_BYTES
from stepscope.store.frames import FramesReader, batch_of
from stepscope.store.layout import Segment, frames_number, part_number
from stepscope.store.sound import sound

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

    @property
    def extent(self) -> tuple[int, int, int, int]:
        return self.first_ns, self.last_ns, self.low_step, self.high_step


class BatchIndex:
    """Of the batches of tracked memory in `base.NNNN.frames`. Grows as the files do.

    What a launcher converted is read from there, without an index. A batch that was seen, whose
    file is gone and that nobody converted counts as dropped.
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
                payload_bytes = 8 + reader.rows * ROW_BYTES
                times, steps = batch.columns["time_ns"], batch.columns["step"].tolist()
                self._places.append(
                    _Place(
                        reader.path,
                        reader.offset - (payload_bytes + 7 & ~7),
                        reader.rows,
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
        """Those that hold wanted events, oldest first."""
        places = self._places_of(wanted)
        with ExitStack() as stack:
            files = self._open({place.path for place in places}, stack)
            yield from self._converted(wanted, {frames_number(path) for path in files})
            for place in places:
                if place.path in files:
                    yield _read(files[place.path], place)

    def _places_of(self, wanted: EventRange) -> list[_Place]:
        """Times of one tracker only grow, and those of several that are written in turns overlap by
        less than a flush: the search begins that much earlier."""
        start_ns = wanted.start_ns - _OVERLAP_NS
        first = bisect_left(self._places, start_ns, key=lambda place: place.last_ns)
        end_ns = wanted.end_ns + _OVERLAP_NS
        near = takewhile(lambda place: place.first_ns <= end_ns, self._places[first:])
        return [place for place in near if wanted.touches(*place.extent)]

    def _open(self, paths: set[Path], stack: ExitStack) -> dict[Path, Descriptor]:
        """Held open: they stay readable when somebody takes them away. A file that is gone was
        converted by the launcher, or it was old."""
        files = {}
        for path in paths:
            try:
                files[path] = Descriptor.open(path, os.O_RDONLY)
                stack.callback(files[path].close)
            except OSError:
                self._forget(path)
        return files

    @property
    def _arrows(self) -> tuple[Path, ...]:
        found = self.base.parent.glob(f"{self.base.name}.*arrows")
        return tuple(sorted(found, key=part_number))

    def _forget(self, path: Path) -> None:
        gone = [place for place in self._places if place.path == path]
        if not self._arrows:
            self.dropped_events += sum(place.rows - 1 for place in gone)
        self._places = [place for place in self._places if place.path != path]

    def _converted(self, wanted: EventRange, held: set[int]) -> Iterator[Batch]:
        """What a launcher made of files that are gone; `held`: numbers of those that we have."""
        parts = self._arrows
        if not parts:
            return
        from stepscope.store.parts import PartsReader

        reader = PartsReader(Segment(self.base, parts, ()))
        for batch in reader.batches():
            if reader.covers.file in held:
                continue
            times, steps = batch.columns["time_ns"].tolist(), batch.columns["step"].tolist()
            if wanted.touches(min(times), max(times), min(steps), max(steps)):
                yield batch


_OVERLAP_NS = 10_000_000_000


def _has_number(path: Path) -> bool:
    return path.name.rsplit(".", 2)[1].isdigit()


def _read(file: Descriptor, place: _Place) -> Batch:
    payload = os.pread(file.fileno(), 8 + place.rows * ROW_BYTES, place.offset)
    return sound(batch_of(memoryview(payload), place.names))
