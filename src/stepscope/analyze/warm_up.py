"""The steady part of a loop: without the first steps that take longer than any later ones.

Lazy initialisation, compilation and the first start of workers happen once. In a short run they are
much of the time, and say nothing about the steps to come.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from typing import Final

from stepscope.analyze.loop import LoaderUse, Loop
from stepscope.analyze.phases import COUNT
from stepscope.analyze.spans import PHASES
from stepscope.model.phases import Phase
from stepscope.stats.quantiles import median

__all__ = ["steady", "warm_up_length"]

_LEAST: Final = 8  # windows, below which there is no telling
_LONGER: Final = 1.5  # than the median is a step of the warm-up at least
_NOW_AND_THEN: Final = (Phase.EVALUATION, Phase.CHECKPOINT_SAVE)  # a program chooses when


def steady(loop: Loop) -> Loop:
    """The loop without its warm-up; itself where it has none, or is without it already.

    What comes again is no warm-up: evaluation, saves, and workers that are started anew for every
    pass over the data are kept.
    """
    if loop.warm_up_steps:
        return loop
    kept = {PHASES.index(phase) for phase in _NOW_AND_THEN}
    if any(_restarts(use) for use in loop.loaders):
        kept.add(PHASES.index(Phase.INPUT_WAIT))
    once = [place for place in range(COUNT) if place not in kept]
    windows = loop.windows
    steps = windows.steps()
    walls = [sum(window) for window in zip(*map(windows.wall_ns, once), strict=True)]
    times = [wall / count for wall, count in zip(walls, steps, strict=True) if count]
    length = warm_up_length(times)
    if not length or not all(steps[:length]):
        return loop
    left_out, wall_ns = sum(steps[:length]), sum(walls[:length])
    return replace(
        loop,
        start_ns=loop.start_ns + wall_ns,
        steps=loop.steps - left_out,
        windows=windows.without_start(length, once),
        loaders=tuple(_without_start(use, left_out / loop.steps) for use in loop.loaders),
        warm_up_steps=left_out,
        warm_up_ns=wall_ns,
    )


def warm_up_length(times: Sequence[float]) -> int:
    """How many steps at the start, a quarter of them at most, take longer than later ones.

    Steps differ, and some come with more work now and then: only what is longer than the longest
    step of a usual quarter of the run is warm-up.

    >>> warm_up_length([9, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]), warm_up_length([9, 1, 1, 1] * 3)
    (2, 0)
    """
    quarter = len(times) // 4
    if len(times) < _LEAST:
        return 0
    later = [times[place * quarter : (place + 1) * quarter] for place in (1, 2, 3)]
    longest = median(max(part) for part in later) or 0.0
    limit = max(longest, _LONGER * (median(times[quarter:]) or 0.0))
    return next((at for at in range(quarter) if times[at] <= limit), quarter)


def _restarts(use: LoaderUse) -> bool:
    settings = use.settings
    return bool(
        use.iterations > 1 and settings.get("workers") and not settings.get("persistent_workers")
    )


def _without_start(use: LoaderUse, part: float) -> LoaderUse:
    """Without its batches in the warm-up, and without its only start, which lies there."""
    made = copy(use)
    made.batches -= round(use.batches * part)
    if not _restarts(use):
        made.wait_ns -= use.iter_ns + use.first_ns
        made.iter_ns = made.first_ns = 0
    return made
