"""runs/index.sqlite: the list of runs, also of those that lie elsewhere.

It only remembers what the run folders say, so it may be lost: an index that cannot be read is built
again from the folders, and one that cannot be written is done without.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from stepscope.errors import StepscopeError
from stepscope.model.meta import Meta
from stepscope.store.database import INDEX_FILE, bound_path, may_hold_index, open_index
from stepscope.store.rundir import is_run, read_meta
from stepscope.store.summary import read_summary_json

if TYPE_CHECKING:
    import sqlite3

__all__ = ["RunEntry", "add_run", "list_runs"]

_TABLE = """CREATE TABLE IF NOT EXISTS runs (
    path TEXT PRIMARY KEY, name TEXT NOT NULL, started_unix REAL, ended_unix REAL,
    exit_code INTEGER, command TEXT NOT NULL, verdict TEXT NOT NULL)"""


class RunEntry(NamedTuple):
    """A line of the list. What is None is not known (a run that goes on or was killed).

    path: as the system knows it, which need not be UTF-8. All else is text for people.
    """

    path: str
    name: str
    started_unix: float | None
    ended_unix: float | None
    exit_code: int | None
    command: str
    verdict: str


_LOOK = f"SELECT {', '.join(RunEntry._fields)} FROM runs LIMIT 1"


def add_run(runs: Path, run: Path) -> None:
    """Remembers the run, if `runs` is a folder of ours. Never raises for a disk or a database that
    does not work."""
    if not may_hold_index(runs):
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
            for path in _known_paths(database):
                if path not in entries and is_run(Path(path)):
                    entries[path] = _entry(Path(path))
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
    meta: Meta = {}
    verdict = ""
    try:
        meta = read_meta(run)
        finding = (read_summary_json(run) or {}).get("verdict")
        verdict = str(finding.get("title", "")) if isinstance(finding, dict) else ""
    except (StepscopeError, OSError) as error:
        verdict = f"unreadable: {error}"
    return RunEntry(
        path=str(run.resolve()),
        name=_printable(meta.get("name") or run.name),
        started_unix=meta.get("started_unix"),
        ended_unix=meta.get("ended_unix"),
        exit_code=meta.get("exit_code"),
        command=_printable(" ".join(meta.get("command", ()))),
        verdict=_printable(verdict),
    )


def _printable(text: str) -> str:
    """What UTF-8 cannot say (bytes of a path, halves of characters) is spelled out: \\udcff."""
    return text.encode(errors="backslashreplace").decode()


def _database(runs: Path) -> contextlib.AbstractContextManager[sqlite3.Connection | None]:
    return open_index(runs, [_TABLE, _LOOK])


def _store(database: sqlite3.Connection, entries: list[RunEntry]) -> None:
    rows = [(bound_path(entry.path), *entry[1:]) for entry in entries]
    marks = ", ".join("?" * len(RunEntry._fields))
    database.executemany(f"INSERT OR REPLACE INTO runs VALUES ({marks})", rows)


def _known_paths(database: sqlite3.Connection | None) -> list[str]:
    """Of all runs that were ever added. What another program put in their place is passed over."""
    if database is None:
        return []
    found = database.execute("SELECT path FROM runs").fetchall()
    return [os.fsdecode(path) for (path,) in found if isinstance(path, str | bytes)]
