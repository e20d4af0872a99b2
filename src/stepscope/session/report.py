"""Shows the report of a run again, at any time."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from stepscope.config import RUNS_FOLDER
from stepscope.errors import UsageError
from stepscope.printer import show
from stepscope.session.meta import about_run
from stepscope.session.show import show_summary, summary_as_line
from stepscope.session.troubles import say
from stepscope.store.light import import_pyarrow_lightly
from stepscope.store.rundir import find_run, read_meta
from stepscope.store.summary import read_summary

if TYPE_CHECKING:
    from stepscope.model.details import Details
    from stepscope.model.summary import Summary

__all__ = ["fold_run", "show_report", "summarise_run"]


def show_report(wanted: str, *, json: bool, html: bool = False, output: Path | None = None) -> None:
    """On stdout; a page goes to `output` or into the run folder, and its path to stdout. A run
    without a summary (it goes on, or was killed) is summarised as it is."""
    if output is not None and not html:
        raise UsageError("-o goes with --html: it names the page to write.")
    import_pyarrow_lightly()
    run = find_run(Path(RUNS_FOLDER), wanted)
    summary = read_summary(run)
    if summary is None:
        summary = summarise_run(run)
        say(f"{run.name} goes on or was killed: this is what it recorded so far.")
    else:
        from stepscope.store.check import check_segments

        check_segments(run, finished=read_meta(run).get("ended_unix") is not None)
    if json:
        show(summary_as_line(summary))
    elif html:
        from stepscope.session.page import write_page

        show(str(write_page(run, summary, output)))
    else:
        show_summary(summary, sys.stdout, run)


def summarise_run(run: Path) -> Summary:
    """From the events alone."""
    return fold_run(run)[0]


def fold_run(run: Path) -> tuple[Summary, Details]:
    """What the events tell, and what stands behind it."""
    from stepscope.session.analysis import RunFold
    from stepscope.store.status import read_status_pages
    from stepscope.store.status_folders import status_folder_of
    from stepscope.store.trace import open_trace

    trace = open_trace(run)
    fold = RunFold(run)
    for process in trace.processes:
        fold.update(process, trace.batches(process))
    status_folder = status_folder_of(run, trace.meta)
    pages = read_status_pages(status_folder) if status_folder is not None else []
    notes = [f"{note}." for note in trace.losses.notes]
    if trace.losses.left_out_events:
        notes.append(
            f"Of this long run {trace.losses.left_out_events:,} events were left out on disk: their"
            " time is unexplained here."
        )
    return fold.summary(about_run(run, trace.meta), pages, notes), fold.details
