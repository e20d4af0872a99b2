"""Whether the segments of a run are what they should be, without reading them through."""

from __future__ import annotations

import os
from pathlib import Path

from stepscope.errors import FormatError
from stepscope.store.frames import FramesReader
from stepscope.store.layout import segments

__all__ = ["check_segments"]

_END_OF_STREAM = b"\xff\xff\xff\xff\0\0\0\0"


def check_segments(run: Path, *, finished: bool) -> None:
    """FormatError: a file is foreign, newer, or torn though the run was `finished`."""
    for segment in segments(run):
        for part in segment.arrows:
            _check_stream(part, may_be_torn=not finished or bool(segment.frames))
        for path in segment.frames:
            next(FramesReader(path).batches(), None)


def _check_stream(path: Path, *, may_be_torn: bool) -> None:
    from stepscope.store.arrow import ArrowReader

    reader = ArrowReader(path)
    if may_be_torn or _last_bytes(path) == _END_OF_STREAM:
        return
    for _ in reader.record_batches():
        pass
    if reader.torn or reader.process is None:
        raise FormatError(
            f"{path} is torn: it was whole when the run ended. Restore it from a copy, or delete it"
            " to see the report without it."
        )


def _last_bytes(path: Path) -> bytes:
    with path.open("rb") as file:
        file.seek(-min(len(_END_OF_STREAM), path.stat().st_size), os.SEEK_END)
        return file.read()
