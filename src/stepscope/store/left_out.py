"""What of a long run was left out on purpose, or had to go: how that is told."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from stepscope.errors import FormatError
from stepscope.model import names
from stepscope.model.event import COLUMNS, Batch, EventType
from stepscope.model.plain import Count, from_plain
from stepscope.store.files import read_json, write_json

__all__ = ["FramesGap", "LeftOut", "read_left_out", "write_left_out"]

FILE = "left_out.json"


class LeftOut(NamedTuple):
    """Processes of which nothing is kept: loaders may start thousands of workers."""

    processes: Count = 0
    events: Count = 0


def read_left_out(run: Path) -> LeftOut:
    """What whole processes were left out of a run; a file that cannot be read says none."""
    try:
        left_out: LeftOut = from_plain(LeftOut, read_json(run / FILE), "left_out")
    except (FileNotFoundError, FormatError):
        return LeftOut()
    return left_out


def write_left_out(run: Path, left_out: LeftOut) -> None:
    write_json(run / FILE, left_out._asdict())


class FramesGap:
    """Finds where a writer whose launcher was gone let go of its oldest frames.

    The events are counted as lost by the writer; here it is told when they were.
    """

    def __init__(self) -> None:
        self._file = -1
        self._last_ns = 0

    def passed(self, batch: Batch, through: int) -> None:
        """It was given out; with it all frames up to that file."""
        self._file = max(self._file, through)
        self._last_ns = max(self._last_ns, batch.columns["time_ns"][batch.count - 1])

    def before(self, number: int, batch: Batch) -> Iterator[Batch]:
        """A mark to give out before a batch of the frames file with this number, if any."""
        first_ns = batch.columns["time_ns"][0]
        if self._last_ns and number > self._file + 1:
            yield _mark(self._last_ns, max(0, first_ns - self._last_ns))


def _mark(time_ns: int, duration_ns: int) -> Batch:
    values = {"time_ns": time_ns, "duration_ns": duration_ns, "cpu_start_ns": -1, "cpu_ns": -1}
    values |= {"name": 1, "type": int(EventType.MARK)}
    columns = {
        column.name: memoryview(array(column.code, [values.get(column.name, 0)]))
        for column in COLUMNS
    }
    return Batch(1, columns, {1: names.OWN_LEFT_OUT})
