"""The alerts of a run, and the outbox of those who are to hear of them.

A notice is in the run's own file before anybody is told (store/alert_files.py). The index holds a
copy, in which the deliveries of all runs can be found: what one run could not deliver, the next one
with the same sink does, or `stepscope alerts --send`. A process works from memory and writes both
whenever they can be written: a disk that is full or a database that is locked costs nobody an
alert, as long as the process lives.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from stepscope.model.alert import Alert
from stepscope.model.delivery import (
    AlertRecord,
    Delivery,
    DeliveryState,
    DeliveryStatus,
    OutboxCounts,
    notice_key,
)
from stepscope.store import outbox
from stepscope.store.alert_files import (
    ALERTS_FILE,
    DELIVERIES_FILE,
    Notice,
    Outcome,
    append_line,
    notice_line,
    outcome_line,
    read_notices,
)
from stepscope.store.database import INDEX_FILE
from stepscope.store.outbox import Row
from stepscope.store.owners import new_owner

if TYPE_CHECKING:
    import sqlite3

__all__ = ["AlertStore", "Leftovers", "alerts_of", "pending_everywhere"]

_MOST: Final = 10_000  # lines and deliveries that are kept in memory
_PATIENCE_S: Final = 2.0  # for a database that others write to
_BRIEF_S: Final = 0.05  # the same, where somebody waits for us


class Leftovers:
    """An Outbox of what runs left behind. Never raises; works from several threads and processes.

    run: whose deliveries alone; None: those of all runs in `runs`.
    """

    def __init__(
        self, runs: Path, run: Path | None = None, now_unix: Callable[[], float] = time.time
    ) -> None:
        self._runs, self._run = runs.resolve(), None if run is None else run.resolve()
        self._only = None if run is None else str(self._run)
        self._now_unix = now_unix
        self._owner = new_owner()
        self._lock = threading.Lock()  # of what is in memory
        self._index_lock = threading.Lock()
        self._waiting: dict[str, Row] = {}
        self._unsaved: dict[str, Row] = {}
        self._unwritten: list[tuple[Path, str]] = []
        self._ends = {DeliveryState.DELIVERED: 0, DeliveryState.REFUSED: 0}
        self._lost = 0
        self._imported = False

    def add(self, alert: Alert, sinks: Sequence[str]) -> None:
        """Nothing: whoever delivers what others left has no news."""

    def pending(self, sink: str, limit: int) -> list[Delivery]:
        """The oldest first; they are this process's until it is done with them or ends."""
        self._write()
        self._save(_PATIENCE_S, sink)
        with self._lock:
            rows = [row for row in self._waiting.values() if row.sink == sink]
        return [Delivery(row.id, row.alert, row.attempts) for row in rows[:limit]]

    def delivered(self, id: str) -> None:
        self._settle(id, DeliveryState.DELIVERED, "", self._now_unix())

    def failed(self, id: str, error: str, at_unix: float, *, permanent: bool = False) -> None:
        state = DeliveryState.REFUSED if permanent else DeliveryState.PENDING
        self._settle(id, state, error, at_unix)

    def _settle(self, id: str, state: DeliveryState, error: str, at_unix: float) -> None:
        with self._lock:
            row = self._waiting.get(id)
            if row is None:
                return
            row = Row(*row[:3], state, row.attempts + 1, at_unix, error)
            self._unsaved[id] = row
            if state is DeliveryState.PENDING:
                self._waiting[id] = row
            else:
                del self._waiting[id]
                self._ends[state] += 1
                line = outcome_line(Outcome(id, state, at_unix, error))
                self._keep(Path(row.run) / DELIVERIES_FILE, line)
        self._write()
        self._save(_PATIENCE_S)

    def counts(self) -> OutboxCounts:
        """Of this process alone."""
        with self._lock:
            return OutboxCounts(
                pending=len(self._waiting),
                delivered=self._ends[DeliveryState.DELIVERED],
                refused=self._ends[DeliveryState.REFUSED],
                unsaved=max(len(self._unsaved), len(self._unwritten)),
                lost=self._lost,
            )

    def close(self) -> None:
        """Others may deliver what is left."""
        self._write()
        self._save(_PATIENCE_S)
        with self._index_lock:
            outbox.in_index(
                self._runs, _PATIENCE_S, lambda index: outbox.release(index, self._owner)
            )

    def _keep(self, path: Path, line: str) -> None:
        if len(self._unwritten) < _MOST:
            self._unwritten.append((path, line))
        else:
            self._lost += 1

    def _write(self) -> None:
        """What no file holds yet, in order, as far as the disk takes it."""
        with self._lock:
            while self._unwritten:
                path, line = self._unwritten[0]
                try:
                    append_line(path, line)
                except FileNotFoundError:
                    pass  # the run was deleted, and its alerts with it
                except OSError:
                    return
                del self._unwritten[0]

    def _save(self, timeout_s: float, claim_for: str | None = None) -> None:
        """Brings the index up to date, if it can be had."""
        if not self._index_lock.acquire(timeout=timeout_s):
            return
        try:
            with self._lock:
                rows = dict(self._unsaved)
            found = outbox.in_index(
                self._runs, timeout_s, lambda index: self._bring_up(index, rows, claim_for)
            )
            if found is not None:
                self._imported |= claim_for is not None
                self._is_saved(rows, found)
        finally:
            self._index_lock.release()

    def _bring_up(
        self, index: sqlite3.Connection, rows: dict[str, Row], claim_for: str | None
    ) -> list[Row]:
        now_unix = self._now_unix()
        if self._run is not None and not outbox.knows_run(index, self._run):
            outbox.import_run(index, self._run)  # it is new, or the index was lost
        outbox.save(index, rows.values(), self._owner, now_unix)
        if claim_for is None:
            return []
        if not self._imported:  # once: it may take a moment, which the threads of sinks have
            outbox.import_runs(index, self._runs)
        return outbox.claim(index, claim_for, self._owner, now_unix, self._only)

    def _is_saved(self, rows: dict[str, Row], found: list[Row]) -> None:
        with self._lock:
            for id, row in rows.items():
                if self._unsaved.get(id) is row:  # and not a later one
                    del self._unsaved[id]
            for row in found[: _MOST - len(self._waiting)]:
                self._waiting.setdefault(row.id, row)


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
        elif len(self._waiting) >= _MOST:
            return  # the file has it: the next process delivers it
        self._known.add(row.id)
        self._waiting[row.id] = self._unsaved[row.id] = row


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
    return [AlertRecord(alert, _statuses(alert, list(rows.values()))) for alert in newest.values()]


def _statuses(alert: Alert, rows: Sequence[Row]) -> tuple[DeliveryStatus, ...]:
    key = notice_key(alert)
    return tuple(
        DeliveryStatus(row.sink, row.state, row.attempts, row.at_unix, row.error)
        for row in rows
        if notice_key(row.alert) == key
    )


def pending_everywhere(runs: Path, sink: str | None = None, run: Path | None = None) -> list[Row]:
    """What was not delivered, of all runs in `runs`; for one sink or of one run alone."""
    runs, run = runs.resolve(), None if run is None else run.resolve()

    def look(index: sqlite3.Connection) -> list[Row]:
        outbox.import_runs(index, runs)
        if run is not None:
            outbox.import_run(index, run)
        return outbox.rows_of(index, None if run is None else str(run), sink)

    rows = outbox.in_index(runs, _PATIENCE_S, look)
    if rows is None:
        folders = [path.parent for path in sorted(runs.glob(f"*/{ALERTS_FILE}"))]
        folders = folders if run is None else [run]
        rows = [row for folder in folders for row, _ in outbox.rows_in_files(folder)]
        rows = [row for row in rows if sink in (None, row.sink)]
    return [row for row in rows if row.state is DeliveryState.PENDING]
