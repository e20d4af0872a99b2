"""The last events of this process and its workers, as the analysers of a report see them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from stepscope.analyze.phases import StepTime
from stepscope.analyze.tally import Step
from stepscope.errors import StepscopeError
from stepscope.model.event import Batch
from stepscope.session.analysis import RunFold
from stepscope.store.frames import FramesReader
from stepscope.store.layout import segments

__all__ = ["recent_fold"]

_MOST_EVENTS: Final = 20_000  # of a process: about a tenth of a second of work
_MOST_WORKERS: Final = 8


def recent_fold(run: Path, base: Path) -> RunFold:
    """Of the process whose files begin with `base` and of the newest processes beside it."""
    fold = RunFold(watcher=lambda process: _pass_by)  # who watches has the last stacks kept
    for path in _newest_files(run, base):
        reader = FramesReader(path)
        try:
            batches = _last(reader.read_new())
        except StepscopeError:
            continue
        if reader.process is not None:
            fold.update(reader.process, batches)
    return fold


def _pass_by(step: Step, time: StepTime) -> None:
    """Steps are told elsewhere."""


def _newest_files(run: Path, base: Path) -> Iterator[Path]:
    try:
        beside = [one for one in segments(run) if one.base.parent == base.parent and one.frames]
    except StepscopeError:
        return
    own = [one.frames[-1] for one in beside if one.base == base]
    others = sorted((one.frames[-1] for one in beside if one.base != base), key=_changed)
    yield from (*own, *others[-_MOST_WORKERS:])


def _changed(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _last(batches: list[Batch]) -> list[Batch]:
    """In their order."""
    left = _MOST_EVENTS
    kept: list[Batch] = []
    for batch in reversed(batches):
        left -= batch.count
        if left < 0 and kept:
            break
        kept.append(batch)
    return kept[::-1]
