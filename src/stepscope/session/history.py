"""Shows a figure over past runs."""

from __future__ import annotations

import json
import sys
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from stepscope.errors import RunNotFoundError, StepscopeError, UsageError
from stepscope.printer import show
from stepscope.session.troubles import say, say_skipped
from stepscope.store.index import RunEntry, list_runs
from stepscope.store.summary import read_summary

if TYPE_CHECKING:
    from stepscope.model.history import HistoryRun, Series

__all__ = ["HistoryOptions", "read_history", "show_history"]


class HistoryOptions(NamedTuple):
    """What was asked for. name: a pattern of run names; their runs are one series."""

    folder: Path
    metric: str = "step"
    name: str = ""
    json: bool = False


def show_history(options: HistoryOptions) -> None:
    """On stdout."""
    series = read_history(options)
    if options.json:
        show(json.dumps([one.to_dict() for one in series], ensure_ascii=False))
        return
    from stepscope.report.console import console_on
    from stepscope.report.history import render_history

    render_history(series, console_on(sys.stdout))


def read_history(options: HistoryOptions) -> list[Series]:
    """A series for each command, the one with the newest run last. Runs of different commands do
    not mix, unless a pattern of names says that they belong together."""
    from stepscope.analyze.history import command_label, series_of
    from stepscope.model.comparison import METRICS

    found = {one.key: one for one in METRICS}.get(options.metric)
    if found is None:
        known = ", ".join(one.key for one in METRICS)
        raise UsageError(f"There is no metric {options.metric}: choose among {known}.")
    entries = [entry for entry in reversed(list_runs(options.folder)) if _wanted(entry, options)]
    groups: dict[str, list[HistoryRun]] = {}
    left_out = 0
    unreadable = []
    for entry in entries:
        try:
            run = _figure(entry, options.metric)
        except (StepscopeError, OSError) as error:
            unreadable.append(f"{Path(entry.path).name}: {error}")
            continue
        if run is None:
            left_out += 1
            continue
        label = options.name or command_label(entry.command) or entry.name
        runs = groups.pop(label, [])  # the group of the newest run comes last
        groups[label] = [*runs, run]
    if unreadable:
        say_skipped(unreadable)
    _say_missing(options, len(entries) - len(unreadable), left_out)
    return [series_of(label, found, runs) for label, runs in groups.items()]


def _wanted(entry: RunEntry, options: HistoryOptions) -> bool:
    return not options.name or fnmatchcase(entry.name, options.name)


def _figure(entry: RunEntry, metric: str) -> HistoryRun | None:
    """None: the run has no summary (it goes on or was killed), or lacks this figure."""
    from stepscope.analyze.compare_figures import figures_of
    from stepscope.model.history import HistoryRun

    summary = read_summary(Path(entry.path))
    value = None if summary is None else figures_of(summary, "", "").figures.get(metric)
    return None if value is None else HistoryRun(entry.name, entry.started_unix, value)


def _say_missing(options: HistoryOptions, readable: int, left_out: int) -> None:
    if left_out == readable:
        which = f" with a name like {options.name}" if options.name else ""
        raise RunNotFoundError(
            f"There is no finished run{which} in {options.folder} with a figure for"
            f" {options.metric}: record one with stepscope run train.py."
        )
    if left_out:
        say(f"{left_out} of {readable} runs have no figure for {options.metric}: left out.")
