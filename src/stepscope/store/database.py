"""runs/index.sqlite as a file: opening it, and beginning anew when it is damaged.

Other tools have a folder of that name too (TensorBoard writes its logs there). An index is only
made in a folder that holds nothing but our runs; elsewhere the run folders alone are the list.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from stepscope.store.alert_files import ALERTS_FILE, DELIVERIES_FILE
from stepscope.store.files import PRIVATE_FILE
from stepscope.store.rundir import is_run

if TYPE_CHECKING:
    import sqlite3

__all__ = ["INDEX_FILE", "bound_path", "may_hold_index", "open_index"]

INDEX_FILE: Final = "index.sqlite"
_DAMAGED: Final = ("SQLITE_CORRUPT", "SQLITE_NOTADB")


def may_hold_index(runs: Path) -> bool:
    """True for a folder with an index, or with nothing in it that is not ours."""
    try:
        if not runs.is_dir():
            return False
        entries = [path for path in runs.iterdir() if not path.name.startswith(".")]
    except OSError:
        return False
    has_index = any(path.name == INDEX_FILE for path in entries)
    return has_index or all(is_run(path) or _holds_only_alerts(path) for path in entries)


def _holds_only_alerts(path: Path) -> bool:
    """True for the folder of a monitor inside a program, and for a run that is just being made."""
    try:
        names = {one.name for one in path.iterdir()} if path.is_dir() else {path.name}
    except OSError:
        return False
    return names <= {ALERTS_FILE, DELIVERIES_FILE}


@contextlib.contextmanager
def open_index(
    runs: Path, statements: Sequence[str], timeout_s: float = 2.0
) -> Iterator[sqlite3.Connection | None]:
    """None: it works neither as it is nor anew. statements: make the tables and look at their
    columns, which makes sure that they are ours. What fails in the database later ends the block
    and goes no further.

    A file that is damaged or of another shape is removed: all that it holds is in the run folders.
    """
    import sqlite3

    connection = None
    if (runs / INDEX_FILE).is_symlink():  # a database of somebody else
        _remove(runs)
    for attempt in range(2):
        try:
            with contextlib.suppress(OSError):
                (runs / INDEX_FILE).touch(PRIVATE_FILE)
            connection = sqlite3.connect(runs / INDEX_FILE, timeout=timeout_s, isolation_level=None)
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("PRAGMA synchronous=OFF")  # survives kill -9; nobody waits for disks
            for statement in statements:
                connection.execute(statement).fetchall()
            break
        except sqlite3.Error as error:
            if connection is not None:
                connection.close()
                connection = None
            if attempt or not _is_lost(error):
                break
            _remove(runs)
    try:
        yield connection
    except sqlite3.Error as error:
        if _is_lost(error):
            _remove(runs)
    finally:
        if connection is not None:
            connection.close()


def bound_path(path: str) -> str | bytes:
    """A path as the index keeps it: text, or its bytes where they are no UTF-8, which SQLite's text
    must be. `os.fsdecode` gives the path back from either."""
    is_text = path.encode(errors="replace").decode() == path
    return path if is_text else os.fsencode(path)


def _is_lost(error: sqlite3.Error) -> bool:
    """What is locked, full or not to be written passes; this does not."""
    name = getattr(error, "sqlite_errorname", None) or ""
    return name.startswith(_DAMAGED) or "no such column" in str(error)


def _remove(runs: Path) -> None:
    for suffix in ("", "-wal", "-shm"):
        with contextlib.suppress(OSError):
            (runs / f"{INDEX_FILE}{suffix}").unlink(missing_ok=True)
