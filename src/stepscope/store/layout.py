"""Which files of a run folder belong to which process."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import NamedTuple

from stepscope.errors import RunNotFoundError

__all__ = ["HOST_FOLDER", "Segment", "frames_number", "segments"]

HOST_FOLDER = "host"
_FOLDER = re.compile(r"rank-\d{5,}|host")
_FILE = re.compile(r"(?P<process>.+?)(?:\.(?P<number>\d{4,9})\.frames|\.arrows)", re.DOTALL)


class Segment(NamedTuple):
    """The files of one process."""

    base: Path  # <run>/<folder>/<process>
    arrows: Path | None
    frames: tuple[Path, ...]  # in the order in which they were written


def frames_number(path: Path) -> int:
    return int(path.name.rsplit(".", 2)[1])


def segments(run: Path) -> list[Segment]:
    """Every process of the run, in the order of its folder and name."""
    found: dict[Path, tuple[list[Path], list[Path]]] = {}
    try:
        folders = sorted(entry.path for entry in os.scandir(run) if _FOLDER.fullmatch(entry.name))
        for folder in folders:
            _collect(Path(folder), found)
    except OSError as error:
        raise RunNotFoundError(
            f"The run folder {run} cannot be read ({error.strerror}): check the path and its"
            " permissions."
        ) from error
    return [
        Segment(base, arrows[0] if arrows else None, tuple(sorted(frames, key=frames_number)))
        for base, (arrows, frames) in sorted(found.items())
    ]


def _collect(folder: Path, found: dict[Path, tuple[list[Path], list[Path]]]) -> None:
    with os.scandir(folder) as entries:
        for entry in entries:
            match = _FILE.fullmatch(entry.name)
            if match:
                arrows, frames = found.setdefault(folder / match["process"], ([], []))
                (frames if match["number"] else arrows).append(folder / entry.name)
