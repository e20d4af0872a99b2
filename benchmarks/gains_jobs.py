"""One thing after the other, each recorded when it is done, with the time that is left."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from gains_programs import Failed
from gains_records import Records

__all__ = ["Job", "Left", "work"]


class Job(NamedTuple):
    """do: is given a folder that is deleted afterwards; what it returns is recorded. guess_s: how
    long it will take, before one of its kind was done."""

    what: str
    name: str
    guess_s: float
    do: Callable[[Path], Mapping[str, Any]]


class Left:
    """How long the rest will take: as long as those of the same kind took, or as was guessed."""

    def __init__(self) -> None:
        self._taken_s: dict[str, list[float]] = {}

    def took(self, job: Job, seconds: float) -> None:
        self._taken_s.setdefault(job.what, []).append(seconds)

    def seconds(self, jobs: Iterable[Job]) -> float:
        return sum(self._of(job) for job in jobs)

    def _of(self, job: Job) -> float:
        taken = self._taken_s.get(job.what)
        return statistics.mean(taken) if taken else job.guess_s


def work(
    jobs: Sequence[Job],
    records: Records,
    say: Callable[[str], None],
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """What is already recorded is passed over. A job that fails is recorded with its problem."""
    todo = [job for job in jobs if not records.is_done(job.what, job.name)]
    left = Left()
    for number, job in enumerate(todo):
        minutes = left.seconds(todo[number:]) / 60
        say(f"[{number + 1}/{len(todo)}] {job.what} {job.name}, {minutes:.0f} min left")
        began = clock()
        try:
            with tempfile.TemporaryDirectory(prefix="stepscope-gains-") as folder:
                record = dict(job.do(Path(folder)))
        except Failed as error:
            record = {"problem": str(error)}
            say(f"  it could not be measured: {error}")
        left.took(job, clock() - began)
        records.add(job.what, job.name, record)
