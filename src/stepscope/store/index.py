"""runs/index.sqlite: the list of runs, also of those that lie elsewhere.

It only remembers what the run folders say, so it may be lost: an index that cannot be read is built
again from the folders, and one that cannot be written is done without.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from stepscope.errors import StepscopeError
from stepscope.store.database import INDEX_FILE, open_index
from stepscope.store.rundir import is_run, read_meta
from stepscope.store.summary import read_summary_json

if TYPE_CHECKING:
    import sqlite3

__all__ = ["RunEntry", "add_run", "list_runs"]

_TABLE = """CREATE TABLE IF NOT EXISTS runs (
    path TEXT PRIMARY KEY, name TEXT NOT NULL, started_unix REAL, ended_unix REAL,
    exit_code INTEGER, command TEXT NOT NULL, verdict TEXT NOT NULL)"""


class RunEntry(NamedTuple):
    """A line of the list. What is None is not known (a run that goes on or was killed)."""

    path: str
    name: str
    started_unix: float | None
    ended_unix: float | None
    exit_code: int | None
    command: str
    verdict: str


_SELECT = f"SELECT {', '.join(RunEntry._fields)} FROM runs"


def add_run(runs: Path, run: Path) -> None:
    """Remembers the run, if there is a `runs` folder to remember it in. Never raises for a disk or
    a database that does not work."""
    if not runs.is_dir():
        return
    with contextlib.suppress(OSError), _database(runs) as database:
        if database is not None:
            _store(database, [_entry(run)])


def list_runs(runs: Path) -> list[RunEntry]:
    """Newest first: what lies in `runs`, and what the index knows elsewhere and still exists."""
    entries = {
        str(path.resolve()): _entry(path)
        for path in _folders(runs)
        if path.is_dir() and is_run(path)
    }
    if (runs / INDEX_FILE).exists():
        with contextlib.suppress(OSError), _database(runs) as database:
            for entry in _load(database):
                if entry.path not in entries and is_run(Path(entry.path)):
                    entries[entry.path] = _entry(Path(entry.path))
            if database is not None:
                _store(database, list(entries.values()))
    return sorted(entries.values(), key=lambda entry: entry.started_unix or 0.0, reverse=True)


def _folders(runs: Path) -> list[Path]:
    try:
        return list(runs.iterdir())
    except OSError:
        return []


def _entry(run: Path) -> RunEntry:
    """What the folder says about itself."""
    meta: dict[str, Any] = {}
    verdict = ""
    try:
        meta = read_meta(run)
        finding = (read_summary_json(run) or {}).get("verdict")
        verdict = str(finding.get("title", "")) if isinstance(finding, dict) else ""
    except (StepscopeError, OSError) as error:
        verdict = f"unreadable: {error}"
    command = meta.get("command")
    return RunEntry(
        path=str(run.resolve()),
        name=str(meta.get("name") or run.name),
        started_unix=_number(meta.get("started_unix")),
        ended_unix=_number(meta.get("ended_unix")),
        exit_code=meta.get("exit_code") if isinstance(meta.get("exit_code"), int) else None,
        command=" ".join(map(str, command)) if isinstance(command, list) else "",
        verdict=verdict,
    )


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) else None


def _database(runs: Path) -> contextlib.AbstractContextManager[sqlite3.Connection | None]:
    return open_index(runs, [_TABLE, f"{_SELECT} LIMIT 1"])


def _store(database: sqlite3.Connection, entries: list[RunEntry]) -> None:
    marks = ", ".join("?" * len(RunEntry._fields))
    database.executemany(f"INSERT OR REPLACE INTO runs VALUES ({marks})", entries)


def _load(database: sqlite3.Connection | None) -> list[RunEntry]:
    if database is None:
        return []
    return [RunEntry(*row) for row in database.execute(_SELECT).fetchall()]
