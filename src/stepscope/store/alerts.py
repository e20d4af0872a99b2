"""The alerts of a run, and the outbox of those who are to hear of them.

A notice is in the run's own file before anybody is told (store/alert_files.py). The index holds a
copy, in which the deliveries of all runs can be found: what one run could not deliver, the next one
with the same sink does, or `stepscope alerts --send`. A process works from memory and writes both
whenever they can be written: a disk that is full or a database that is locked costs nobody an
alert, as long as the process lives.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from stepscope.model.alert import Alert
from stepscope.model.delivery import AlertRecord, DeliveryState, DeliveryStatus
from stepscope.store import outbox
from stepscope.store.alert_files import ALERTS_FILE, Notice, notice_line, read_notices
from stepscope.store.database import INDEX_FILE
from stepscope.store.leftovers import MOST_WAITING, Leftovers
from stepscope.store.outbox import Row

if TYPE_CHECKING:
    import sqlite3

__all__ = ["AlertStore", "alerts_of", "pending_everywhere"]

_PATIENCE_S: Final = 2.0  # for an index that others write to
_BRIEF_S: Final = 0.05  # the same, where somebody waits for us


class AlertStore(Leftovers):
    """The outbox of a run: keeps its alerts, and delivers what earlier runs could not."""

    def __init__(self, runs: Path, run: Path, now_unix: Callable[[], float] = time.time) -> None:
        super().__init__(runs, run, now_unix)
        self._only = None
        self._folder = run.resolve()
        self._known: set[str] = set()

    def add(self, alert: Alert, sinks: Sequence[str]) -> None:
        """In the run's file when it returns, if the disk takes it. The same notice again replaces
        what it says, and is not delivered again."""
        notice = Notice(alert, tuple(sinks), self._owner)
        with self._lock:
            self._keep(self._folder / ALERTS_FILE, notice_line(notice))
            self._remember(Row(str(self._folder), alert, ""))
            for sink in sinks:
                self._await(Row(str(self._folder), alert, sink))
        self._write()
        self._save(_BRIEF_S)

    def _await(self, row: Row) -> None:
        earlier = self._waiting.get(row.id)
        if earlier is not None:
            row = row._replace(attempts=earlier.attempts)
        elif row.id in self._known:
            return
        elif len(self._waiting) >= MOST_WAITING:
            return  # the file has it: the next process delivers it
        self._known.add(row.id)
        self._waiting[row.id] = row
        self._remember(row)


def alerts_of(run: Path, runs: Path | None = None) -> list[AlertRecord]:
    """The incidents of a run in the order of their beginning, each as it is known last, and how it
    stands with those who are to hear of it. runs: the folder with the index (default: around it).
    """
    run = run.resolve()
    rows = {row.id: row for row, _ in outbox.rows_in_files(run)}
    runs = run.parent if runs is None else runs
    known: list[Row] | None = None
    if (runs / INDEX_FILE).exists():
        known = outbox.in_index(runs, _PATIENCE_S, lambda db: outbox.rows_of(db, str(run)))
    for row in known or []:
        if row.id in rows and rows[row.id].attempts <= row.attempts:
            rows[row.id] = row
    newest = {notice.alert.id: notice.alert for notice in read_notices(run)}
    by_alert: dict[str, dict[str, list[Row]]] = {}
    for row in rows.values():
        by_alert.setdefault(row.alert.id, {}).setdefault(row.sink, []).append(row)
    return [
        AlertRecord(alert, tuple(_status(told) for told in by_alert.get(id, {}).values()))
        for id, alert in newest.items()
    ]


def _status(told: list[Row]) -> DeliveryStatus:
    """Of the notices of an incident to one sink: the first that waits, or else the last."""
    waiting = [row for row in told if row.state is DeliveryState.PENDING]
    shown = waiting[0] if waiting else told[-1]
    alike = sum(row.state is shown.state for row in told)
    return DeliveryStatus(
        shown.sink, shown.state, shown.attempts, shown.at_unix, shown.error, alike
    )


def pending_everywhere(runs: Path, sink: str | None = None, run: Path | None = None) -> list[Row]:
    """What was not delivered, of all runs in `runs`; for one sink or of one run alone."""
    runs, run = runs.resolve(), None if run is None else run.resolve()

    def look(index: sqlite3.Connection) -> list[Row]:
        outbox.import_runs(index, runs, time.time())
        if run is not None:
            outbox.import_run(index, run, time.time())
        return outbox.rows_of(index, None if run is None else str(run), sink)

    rows = outbox.in_index(runs, _PATIENCE_S, look)
    if rows is None:
        folders = [path.parent for path in sorted(runs.glob(f"*/{ALERTS_FILE}"))]
        folders = folders if run is None else [run]
        rows = [row for folder in folders for row, _ in outbox.rows_in_files(folder)]
        rows = [row for row in rows if sink in (None, row.sink)]
    return [row for row in rows if row.state is DeliveryState.PENDING]
