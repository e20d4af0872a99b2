"""Figures of past runs → series, each with the runs from which on it changed."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import PurePath

from stepscope.model.comparison import Metric
from stepscope.model.history import HistoryRun, LevelChange, Series
from stepscope.stats.changepoints import LEAST, change_points
from stepscope.stats.means import typical

__all__ = ["command_label", "series_of"]


def command_label(command: str) -> str:
    """A command without the path of its interpreter: the same on every machine.

    >>> command_label("/usr/bin/python3.11 train.py --size 3"), command_label("torchrun train.py")
    ('train.py --size 3', 'torchrun train.py')
    """
    first, _, rest = command.partition(" ")
    is_python = PurePath(first).name.startswith("python")
    return rest if is_python and rest else command


def series_of(label: str, metric: Metric, runs: Sequence[HistoryRun]) -> Series:
    """`runs`: the oldest first."""
    values = [run.value for run in runs]
    found = change_points(values)
    edges = [0, *(change.place for change in found), len(values)]
    levels: list[float] = []
    for start, end in pairwise(edges):
        levels += [typical(values[start:end])] * (end - start)
    changes = tuple(LevelChange(change.place, change.ratio) for change in found)
    enough = len(runs) >= 2 * LEAST
    return Series(label, metric, tuple(runs), changes, tuple(levels), enough)
