"""Follows a run while it is recorded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from stepscope.errors import FormatError, RunNotFoundError
from stepscope.model.event import Batch
from stepscope.model.process import ProcessInfo
from stepscope.store.frames import FramesReader
from stepscope.store.layout import frames_number, segments

__all__ = ["News", "RunTail"]

_QUIET_LOOKS = 5  # without anything new of a process that is gone, before its files count as done


class News(NamedTuple):
    """What one process recorded since the last look."""

    base: Path
    process: ProcessInfo
    batches: list[Batch]


class _ProcessTail:
    def __init__(self) -> None:
        self.reader: FramesReader | None = None
        self.done_through = -1  # the frames file up to which everything was read
        self.broken = ""
        self.grows = False  # there was something new at the last look
        self.process: ProcessInfo | None = None
        self.is_over = False  # nobody will write to its files any more
        self.quiet = 0  # looks without anything new

    def read(self, frames: Sequence[Path]) -> tuple[ProcessInfo | None, list[Batch]]:
        batches: list[Batch] = []
        waiting = [path for path in frames if frames_number(path) > self.done_through]
        for position, path in enumerate(waiting):
            if self.reader is None or self.reader.path != path:
                self.reader = FramesReader(path)
            batches += self.reader.read_new()
            self.process = self.reader.process
            is_left = position < len(waiting) - 1  # a later file exists: the writer is there
            if is_left or self.is_over:
                self.done_through = frames_number(path)
        self.quiet = 0 if batches else self.quiet + 1
        return self.process, batches


class RunTail:
    """Each batch is given out once, in the order of its process.

    wanted: which processes to follow, by the base of their files.
    """

    def __init__(self, run: Path, wanted: Callable[[Path], bool] = lambda base: True) -> None:
        self._run = run
        self._wanted = wanted
        self._tails: dict[Path, _ProcessTail] = {}
        self.problems: list[str] = []  # files that cannot be followed, one line each

    def read_new(self) -> list[News]:
        """Empty also when the run folder has vanished: what was recorded then is counted as lost
        by whoever wrote it."""
        try:
            present = segments(self._run)
        except RunNotFoundError:
            return []
        followed = [one for one in present if one.frames and self._wanted(one.base)]
        there = {segment.base for segment in followed}
        self._tails = {base: tail for base, tail in self._tails.items() if base in there}
        found = (self._read(segment.base, segment.frames) for segment in followed)
        return [news for news in found if news and news.batches]

    def read_known(self) -> list[News]:
        """The same of the files that grew until the last look, without a look for others: far
        cheaper, and enough between two calls of `read_new`."""
        found = (
            self._read(base, [tail.reader.path])
            for base, tail in self._tails.items()
            if tail.grows and tail.reader is not None
        )
        return [news for news in found if news and news.batches]

    def note_ended(self, is_running: Callable[[ProcessInfo], bool]) -> None:
        """Files of processes that do not run any more count as done with the next `read_new`."""
        for tail in self._tails.values():
            if tail.process is not None and tail.quiet >= _QUIET_LOOKS and not tail.is_over:
                tail.is_over = not is_running(tail.process)

    def done_through(self, base: Path) -> int:
        """Number of the last frames file of which everything was given out; -1: none."""
        tail = self._tails.get(base)
        return tail.done_through if tail else -1

    @property
    def has_done_files(self) -> bool:
        """Some file was left by its writer and given out whole."""
        return any(tail.done_through >= 0 for tail in self._tails.values())

    def drop_done(self, keep: int) -> None:
        """Deletes files that were given out whole, except the newest `keep` of each process. Each
        file can be read by itself, so the rest stays good."""
        for segment in segments(self._run):
            done = [
                f for f in segment.frames if frames_number(f) <= self.done_through(segment.base)
            ]
            for path in done[:-keep]:
                path.unlink(missing_ok=True)

    def _read(self, base: Path, frames: Sequence[Path]) -> News | None:
        tail = self._tails.setdefault(base, _ProcessTail())
        if tail.broken:
            return None
        try:
            process, batches = tail.read(frames)
            tail.grows = bool(batches)
        except FormatError as error:
            tail.broken = str(error)
            self.problems.append(tail.broken)
            return None
        return News(base, process, batches) if process else None
