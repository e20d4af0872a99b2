"""The tables of runs/index.sqlite about alerts: what was told, and what is on its way to whom.

Functions over an open connection, to be called within `in_index`.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from stepscope.errors import FormatError
from stepscope.model.alert import Alert
from stepscope.model.delivery import DeliveryState, delivery_id, json_line, notice_key
from stepscope.model.plain import parse_json
from stepscope.store.alert_files import ALERTS_FILE, files_size, read_notices, read_outcomes
from stepscope.store.database import bound_path, may_hold_index, open_index
from stepscope.store.owners import is_gone

if TYPE_CHECKING:
    import sqlite3

__all__ = [
    "LEASE_S",
    "Row",
    "claim",
    "import_run",
    "import_runs",
    "in_index",
    "knows_run",
    "release",
    "rows_in_files",
    "rows_of",
    "save",
]

_T = TypeVar("_T")

# How long a process that was not heard of is still believed to be at work.
LEASE_S: Final = 900.0
_MOST: Final = 10_000  # that a process takes over at once
_ALERTS: Final = """CREATE TABLE IF NOT EXISTS alerts (
    notice TEXT PRIMARY KEY, run TEXT NOT NULL, told_unix REAL NOT NULL, body TEXT NOT NULL)"""
_DELIVERIES: Final = """CREATE TABLE IF NOT EXISTS deliveries (
    number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT UNIQUE NOT NULL, run TEXT NOT NULL,
    notice TEXT NOT NULL, sink TEXT NOT NULL, state TEXT NOT NULL, attempts INTEGER NOT NULL,
    at_unix REAL, error TEXT NOT NULL, owner TEXT NOT NULL, claimed_unix REAL NOT NULL)"""
_COLUMNS: Final = "id, run, notice, sink, state, attempts, at_unix, error, owner, claimed_unix"
_STATEMENTS: Final = (
    _ALERTS,
    _DELIVERIES,
    "CREATE TABLE IF NOT EXISTS alert_files (run TEXT PRIMARY KEY, bytes INTEGER NOT NULL)",
    "CREATE INDEX IF NOT EXISTS deliveries_by_sink ON deliveries (sink, state)",
    "SELECT notice, run, told_unix, body FROM alerts LIMIT 1",
    f"SELECT number, {_COLUMNS} FROM deliveries LIMIT 1",
    "SELECT run, bytes FROM alert_files LIMIT 1",
)


class Row(NamedTuple):
    """A delivery as it is remembered. run: its folder. sink "": none, there is only the alert."""

    run: str
    alert: Alert
    sink: str
    state: DeliveryState = DeliveryState.PENDING
    attempts: int = 0
    at_unix: float | None = None
    error: str = ""

    @property
    def id(self) -> str:
        return delivery_id(self.alert, self.sink)


def in_index(runs: Path, timeout_s: float, work: Callable[[sqlite3.Connection], _T]) -> _T | None:
    """What `work` gave, all of it done. None: nothing of it is; the index cannot be used now."""
    if not may_hold_index(runs):
        return None
    # The last three: somebody else wrote what no index of ours holds.
    unusable = contextlib.suppress(OSError, ValueError, TypeError, OverflowError)
    with unusable, open_index(runs, _STATEMENTS, timeout_s) as database:
        if database is not None:
            database.execute("BEGIN IMMEDIATE")
            result = work(database)
            database.execute("COMMIT")
            return result
    return None


def _bound(run: str | None) -> str | bytes | None:
    return None if run is None else bound_path(run)


_SAVE: Final = f"""INSERT INTO deliveries ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT (id) DO UPDATE SET state = excluded.state, attempts = excluded.attempts,
    at_unix = excluded.at_unix, error = excluded.error, owner = excluded.owner,
    claimed_unix = excluded.claimed_unix WHERE deliveries.state = 'pending'"""


def save(database: sqlite3.Connection, rows: Iterable[Row], owner: str, now_unix: float) -> None:
    """As they are now. What a sink took stays taken, whoever says otherwise."""
    for row in rows:
        _save_alert(database, row.run, row.alert)
        if not row.sink:
            continue
        made = (row.id, _bound(row.run), notice_key(row.alert), row.sink)
        error = row.error.encode(errors="replace").decode()  # what a program said may be no UTF-8
        stands = (row.state.value, row.attempts, row.at_unix, error, owner, now_unix)
        database.execute(_SAVE, (*made, *stands))


def _save_alert(database: sqlite3.Connection, run: str, alert: Alert) -> None:
    body = json_line(alert.to_dict())
    database.execute(
        "INSERT INTO alerts VALUES (?, ?, ?, ?)"
        " ON CONFLICT (notice) DO UPDATE SET body = excluded.body",
        (notice_key(alert), _bound(run), alert.told_unix, body),
    )


def rows_in_files(run: Path) -> list[tuple[Row, str]]:
    """The deliveries that a run's own files tell of, and their owners. attempts: 1 at most, the
    others are not in there."""
    outcomes = read_outcomes(run)
    rows = {}
    for alert, sinks, owner in read_notices(run):
        for sink in sinks:
            row = Row(str(run), alert, sink)
            if (outcome := outcomes.get(row.id)) is not None:
                row = Row(*row[:3], outcome.state, 1, outcome.at_unix, outcome.error)
            rows[row.id] = (row, owner)
    return list(rows.values())


def import_runs(database: sqlite3.Connection, runs: Path, now_unix: float) -> None:
    """What the files of the runs say and the index does not know. What it knows of runs that the
    user deleted is forgotten: nobody asks for their alerts any more."""
    known = {os.fsdecode(run) for (run,) in database.execute("SELECT DISTINCT run FROM alerts")}
    gone = [(_bound(run),) for run in known if not Path(run).is_dir()]
    for table in ("alerts", "deliveries", "alert_files"):
        database.executemany(f"DELETE FROM {table} WHERE run = ?", gone)
    found = {str(path.parent) for path in runs.glob(f"*/{ALERTS_FILE}")}
    for run in sorted(found | known):
        import_run(database, Path(run), now_unix)


def import_run(database: sqlite3.Connection, run: Path, now_unix: float) -> None:
    """As import_runs, of this one, if its files changed since last time. Their owners are believed
    to be at work from now on: they may just not have got to the index."""
    name, size = _bound(str(run)), files_size(run)
    known = database.execute("SELECT bytes FROM alert_files WHERE run = ?", (name,)).fetchone()
    if size == (known[0] if known else 0):
        return
    for notice in read_notices(run):
        _save_alert(database, str(run), notice.alert)
    for row, owner in rows_in_files(run):
        if row.state is not DeliveryState.PENDING or not _is_known(database, row):
            save(database, [row], owner, now_unix)
    database.execute("INSERT OR REPLACE INTO alert_files VALUES (?, ?)", (name, size))


def knows_run(database: sqlite3.Connection, run: Path) -> bool:
    """Its files were imported, at least once."""
    name = _bound(str(run))
    found = database.execute("SELECT 1 FROM alert_files WHERE run = ?", (name,)).fetchone()
    return found is not None


def _is_known(database: sqlite3.Connection, row: Row) -> bool:
    found = database.execute("SELECT 1 FROM deliveries WHERE id = ?", (row.id,)).fetchone()
    return found is not None


def claim(
    database: sqlite3.Connection, sink: str, owner: str, now_unix: float, run: str | None
) -> list[Row]:
    """What is pending for a sink and nobody is at work on is now `owner`'s: all of it, so that it
    stays in order. run: of this one alone."""
    for path in {path for _, path in _free(database, sink, owner, now_unix, run)}:
        import_run(database, Path(path), now_unix)  # it may have been taken: the files know
    free = [id for id, _ in _free(database, sink, owner, now_unix, run)]
    database.executemany(
        "UPDATE deliveries SET owner = ?, claimed_unix = ? WHERE id = ?",
        [(owner, now_unix, id) for id in free],
    )
    database.execute(  # and we are still at work on what was ours
        "UPDATE deliveries SET claimed_unix = ? WHERE owner = ? AND state = 'pending'",
        (now_unix, owner),
    )
    taken = set(free)
    return [row for row in rows_of(database, run, sink) if row.id in taken] if taken else []


def _free(
    database: sqlite3.Connection, sink: str, owner: str, now_unix: float, run: str | None
) -> list[tuple[str, str]]:
    """Deliveries by id, and their runs."""
    found = database.execute(
        "SELECT id, run, owner, claimed_unix FROM deliveries WHERE sink = ?1 AND state = 'pending'"
        f" AND owner != ?2 AND (?3 IS NULL OR run = ?3) ORDER BY number LIMIT {_MOST}",
        (sink, owner, _bound(run)),
    ).fetchall()
    owners = {line[2] for line in found}
    gone = {one for one in owners if not one or not isinstance(one, str) or is_gone(one)}
    return [
        (id, os.fsdecode(path))
        for id, path, owner, claimed_unix in found
        if owner in gone or _is_over(claimed_unix, now_unix)
    ]


def _is_over(claimed_unix: Any, now_unix: float) -> bool:
    # A claim from the future is one from before the clock was set back.
    return not isinstance(claimed_unix, int | float) or abs(now_unix - claimed_unix) > LEASE_S


def release(database: sqlite3.Connection, owner: str) -> None:
    """Others may take what is left."""
    database.execute("UPDATE deliveries SET owner = '' WHERE owner = ?", (owner,))


def rows_of(
    database: sqlite3.Connection, run: str | None = None, sink: str | None = None
) -> list[Row]:
    """The deliveries, oldest first. None: of all of them."""
    found = database.execute(
        "SELECT deliveries.run, sink, state, attempts, at_unix, error, body FROM deliveries"
        " JOIN alerts USING (notice) WHERE (?1 IS NULL OR deliveries.run = ?1)"
        " AND (?2 IS NULL OR sink = ?2) ORDER BY number",
        (_bound(run), sink),
    ).fetchall()
    return [row for line in found if (row := _row(line)) is not None]


def _row(line: Sequence[Any]) -> Row | None:
    """None: another program wrote it."""
    run, sink, state, attempts, at_unix, error, body = line
    try:
        alert = Alert.from_dict(parse_json(body))
        path = os.fsdecode(run)
        return Row(path, alert, sink, DeliveryState(state), int(attempts), at_unix, str(error))
    except (FormatError, ValueError, TypeError, OverflowError):
        return None
