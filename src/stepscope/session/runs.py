"""Lists runs."""

from __future__ import annotations

import time
from pathlib import Path

from stepscope.printer import in_one_line, show
from stepscope.store.index import RunEntry, list_runs

__all__ = ["show_runs"]

_HEADINGS = ("RUN", "STARTED", "TOOK", "EXIT", "VERDICT")


def show_runs(folder: Path) -> None:
    """One line a run, newest first, on stdout."""
    entries = list_runs(folder)
    if not entries:
        show(f"There are no runs in {folder}. Record one with: stepscope run train.py")
        return
    rows = [_HEADINGS, *(tuple(map(in_one_line, _row(entry, folder))) for entry in entries)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEADINGS) - 1)]
    for *cells, last in rows:
        padded = [cell.ljust(width) for cell, width in zip(cells, widths, strict=True)]
        show("  ".join([*padded, last]).rstrip())


def _row(entry: RunEntry, folder: Path) -> tuple[str, ...]:
    path = Path(entry.path)
    here = path.parent == folder.resolve()
    started = entry.started_unix
    return (
        path.name if here else entry.path,
        time.strftime("%Y-%m-%d %H:%M", time.localtime(started)) if started is not None else "?",
        _duration(entry),
        "?" if entry.exit_code is None else str(entry.exit_code),
        entry.verdict or ("" if entry.ended_unix else "running or killed: stepscope report tells"),
    )


def _duration(entry: RunEntry) -> str:
    if entry.started_unix is None or entry.ended_unix is None:
        return "?"
    seconds = max(0.0, entry.ended_unix - entry.started_unix)
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {rest:02d} s"
