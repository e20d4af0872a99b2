"""Keeps what a run takes on disk within a limit, however long it goes on.

The first part of a process's stream and its newest ones stay whole. The middle is thinned: of the
parts that are still the densest, the oldest first, every second stretch is left out (thinning.py).
Of workers that came and went, whole ones are left out.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from stepscope.errors import FormatError
from stepscope.model import names
from stepscope.record.frames import FILE_BYTES
from stepscope.store.arrow import ArrowReader
from stepscope.store.layout import Segment, pid_of, segments
from stepscope.store.left_out import LeftOut, read_left_out, write_left_out
from stepscope.store.thinning import thin

__all__ = ["PART_BYTES", "Rotation", "part_bytes_for"]

PART_BYTES = 6 << 20  # of a stream; then it goes on in a new part, so that this one can be thinned
MOST_ENDED = 256  # workers that have ended, of which something is kept
_FIRST_ENDED, _NEWEST_ENDED = 32, 64  # of these
_LEAST_PART_BYTES = 32 << 10
_PARTS = 32  # of a run that is at its limit, at least
_FOREIGN = -1
_AT_ONCE = 8  # groups of parts, then the launcher has other things to do
_NEWEST_SHARE = 8  # an eighth of the parts of a stream, the newest, stay whole


def part_bytes_for(limit_bytes: int) -> int:
    """How large a part of a stream gets. limit_bytes: of the run; 0: any."""
    if not limit_bytes:
        return PART_BYTES
    return min(PART_BYTES, max(_LEAST_PART_BYTES, limit_bytes // _PARTS))


class Rotation:
    """Of one run. limit_bytes: what its streams and frames may take together."""

    def __init__(self, run: Path, limit_bytes: int) -> None:
        self._run, self._limit_bytes = run, limit_bytes
        self._part_bytes = part_bytes_for(limit_bytes)
        self._thinned: dict[Path, tuple[int, int]] = {}  # size of a part, and how thin it is
        self._single: set[tuple[Path, int]] = set()  # parts of one stretch, and their size

    def keep_within(self, busy: Collection[Path]) -> None:
        """Leaves out what is too much. busy: bases of the streams that are being written.

        OSError, FormatError: something could not be written or read; nothing is lost by that.
        """
        present = segments(self._run)
        self._leave_out_ended(present, busy)
        for _ in range(_AT_ONCE):
            present = segments(self._run)
            sizes = {path: _size(path) for one in present for path in one.arrows}
            if sum(sizes.values()) <= self._room_bytes(present):
                break
            if not (self._thin(present, sizes) or self._thin(present, sizes, spares=False)):
                break
        self._forget(present)

    def _room_bytes(self, present: Sequence[Segment]) -> int:
        """For streams: frames files of live processes grow to their full size beside them."""
        frames_bytes = sum(_size(path) for one in present for path in one.frames)
        growing = sum(FILE_BYTES for one in present if one.frames)
        return self._limit_bytes - min(self._limit_bytes // 2, max(frames_bytes, growing))

    def _forget(self, present: Sequence[Segment]) -> None:
        there = {path for one in present for path in one.arrows}
        self._thinned = {path: known for path, known in self._thinned.items() if path in there}
        self._single = {known for known in self._single if known[0] in there}

    # ---- long streams ----

    def _thin(
        self, present: Sequence[Segment], sizes: dict[Path, int], *, spares: bool = True
    ) -> bool:
        """One group of parts, of the process that takes most; False: there is none.

        spares: the first and the newest ones; only the part that is being written otherwise.
        """
        by_size = sorted(present, key=lambda one: -sum(sizes[path] for path in one.arrows))
        for segment in by_size:
            count = len(segment.arrows)
            newest = max(2, count // _NEWEST_SHARE) if spares else 1
            middle = segment.arrows[1 if spares else 0 : max(0, count - newest)]
            for group in self._groups(middle, sizes):
                if thin(group):
                    return True
                self._single.add((group[0], sizes[group[0]]))
        return False

    def _groups(self, middle: Sequence[Path], sizes: dict[Path, int]) -> Iterator[tuple[Path, ...]]:
        """Neighbours that are equally dense and make about one part when halved: the densest, and
        the oldest of these, first."""
        levels = [self._level(path, sizes[path]) for path in middle]
        ours = [place for place in range(len(middle)) if levels[place] != _FOREIGN]
        for at in sorted(ours, key=lambda place: (levels[place], place)):
            behind, total = at + 1, sizes[middle[at]]
            while behind < len(middle) and levels[behind] == levels[at]:
                total += sizes[middle[behind]]
                if total > 2 * self._part_bytes and behind > at + 1:
                    break
                behind += 1
            alone = behind == at + 1
            if not alone or (middle[at], sizes[middle[at]]) not in self._single:
                yield tuple(middle[at:behind])

    def _level(self, path: Path, size: int) -> int:
        """How thin a part is; _FOREIGN: it is none of ours, and stays as it is."""
        known = self._thinned.get(path)
        if known is None or known[0] != size:
            try:
                reader = ArrowReader(path)
                reader.close()
                level = reader.thinned if reader.process is not None else _FOREIGN
            except FormatError:
                level = _FOREIGN
            known = self._thinned[path] = (size, level)
        return known[1]

    # ---- workers that came and went ----

    def _leave_out_ended(self, present: Sequence[Segment], busy: Collection[Path]) -> None:
        over = [
            one
            for one in present
            if len(one.arrows) == 1 and not one.frames and one.base not in busy
        ]
        total_bytes = sum(_size(one.arrows[0]) for one in over)
        if len(over) <= MOST_ENDED and total_bytes <= self._limit_bytes // 4:
            return
        pids = {pid_of(one.base) for one in present}
        middle = sorted(over, key=_began)[_FIRST_ENDED : len(over) - _NEWEST_ENDED : 2]
        going = [(one.arrows[0], events) for one in middle if (events := _helper_events(one, pids))]
        if not going:
            return
        before = read_left_out(self._run)
        events = before.events + sum(count for _, count in going)
        write_left_out(self._run, LeftOut(before.processes + len(going), events))
        for path, _ in going:
            path.unlink()


def _began(segment: Segment) -> tuple[int, str]:
    began = segment.base.name.partition("-")[2]
    return int(began) if began.isdigit() else 0, segment.base.name


def _helper_events(segment: Segment, pids: Collection[int]) -> int:
    """How many events a process left that worked for another one of the run; 0: it did not."""
    try:
        reader = ArrowReader(segment.arrows[0])
        process = reader.process
        if process is None:
            return 0
        helps = process.parent_pid in pids and process.role == "program"
        events = 0
        for record_batch in reader.record_batches():
            events += record_batch.num_rows
            # Where a server forks for the program, the parent is not one of ours.
            helps = helps or names.WORKER in record_batch.column("name").unique().to_pylist()
        reader.close()
    except FormatError:
        return 0
    return events if helps else 0


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
