"""Which files of a run folder belong to which process."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import NamedTuple

from stepscope.errors import RunNotFoundError

__all__ = [
    "HOST_FOLDER",
    "Segment",
    "frames_number",
    "part_number",
    "part_path",
    "pid_of",
    "segments",
]

HOST_FOLDER = "host"
_FOLDER = re.compile(r"rank-\d{5,}|host")
_FILE = re.compile(
    r"(?P<process>.+?)(?:\.(?P<frames>\d{4,9})\.frames|(?:\.(?P<part>\d{4,9}))?\.arrows)", re.DOTALL
)
_PART = re.compile(r"\.(\d{4,9})\.arrows")


class Segment(NamedTuple):
    """The files of one process."""

    base: Path  # <run>/<folder>/<process>
    arrows: tuple[Path, ...]  # its parts, in the order in which they were written
    frames: tuple[Path, ...]  # likewise


def frames_number(path: Path) -> int:
    return int(path.name.rsplit(".", 2)[1])


def part_number(path: Path) -> int:
    """0 for the first part, whose name has no number."""
    found = _PART.search(path.name)
    return int(found[1]) if found else 0


def part_path(base: Path, number: int) -> Path:
    return base.with_name(f"{base.name}.{number:04d}.arrows" if number else f"{base.name}.arrows")


def pid_of(base: Path) -> int:
    """Of the process whose files begin with `base`; -1: it does not say."""
    number = base.name.partition("-")[0]
    return int(number) if number.isdigit() else -1


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
        Segment(
            base,
            tuple(sorted(arrows, key=part_number)),
            tuple(sorted(frames, key=frames_number)),
        )
        for base, (arrows, frames) in sorted(found.items())
    ]


def _collect(folder: Path, found: dict[Path, tuple[list[Path], list[Path]]]) -> None:
    with os.scandir(folder) as entries:
        for entry in entries:
            match = _FILE.fullmatch(entry.name)
            if match:
                arrows, frames = found.setdefault(folder / match["process"], ([], []))
                (frames if match["frames"] else arrows).append(folder / entry.name)
