"""An outbox of what runs could not deliver: in memory, in their files and in the index."""

from __future__ import annotations

import errno
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from stepscope.model.alert import Alert
from stepscope.model.delivery import Delivery, DeliveryState, OutboxCounts
from stepscope.store import outbox
from stepscope.store.alert_files import DELIVERIES_FILE, Outcome, append_line, outcome_line
from stepscope.store.outbox import Row
from stepscope.store.owners import new_owner

if TYPE_CHECKING:
    import sqlite3

__all__ = ["MOST_WAITING", "Leftovers"]

MOST_WAITING: Final = 10_000  # lines and deliveries that are kept in memory
_PATIENCE_S: Final = 2.0  # for a database that others write to
# What does not pass by itself, unlike a disk that is full.
_LASTING: Final = (
    errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EISDIR, errno.ELOOP,
)  # fmt: skip


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
            self._remember(row)
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
        self._save(_PATIENCE_S, release=True)

    def _keep(self, path: Path, line: str) -> None:
        if len(self._unwritten) < MOST_WAITING:
            self._unwritten.append((path, line))
        else:
            self._lost += 1

    def _remember(self, row: Row) -> None:
        """For the index. Beyond what memory has room for, it will learn of it from the files."""
        if len(self._unsaved) >= MOST_WAITING:
            del self._unsaved[next(iter(self._unsaved))]
        self._unsaved[row.id] = row

    def _write(self) -> None:
        """What no file holds yet, each file's in order, as far as the disk takes it. A file that
        takes nothing now holds up no other. What other runs' folders will not take is counted as
        lost: the index has it, and nobody here can help it."""
        with self._lock:
            kept: dict[Path, list[str]] = {}
            for path, line in self._unwritten:
                if path in kept or not self._append(path, line):
                    kept.setdefault(path, []).append(line)
            self._unwritten = [(path, line) for path, lines in kept.items() for line in lines]

    def _append(self, path: Path, line: str) -> bool:
        """False: it is to be tried again."""
        try:
            append_line(path, line)
        except FileNotFoundError:
            pass  # the run was deleted, and its alerts with it
        except OSError as error:
            if path.parent == self._run or error.errno not in _LASTING:
                return False
            self._lost += 1
        except ValueError:  # no path at all: somebody wrote it into the index
            self._lost += 1
        return True

    def _save(self, timeout_s: float, claim_for: str | None = None, release: bool = False) -> None:
        """Brings the index up to date, if it can be had."""
        if not self._index_lock.acquire(timeout=timeout_s):
            return
        try:
            with self._lock:
                rows = dict(self._unsaved)

            def work(index: sqlite3.Connection) -> list[Row]:
                self._bring_up(index, rows)
                if release:  # together with the above: what was taken must not look free
                    outbox.release(index, self._owner)
                return [] if claim_for is None else self._claim(index, claim_for)

            found = outbox.in_index(self._runs, timeout_s, work)
            if found is not None:
                self._imported |= claim_for is not None
                self._is_saved(rows, found)
        finally:
            self._index_lock.release()

    def _bring_up(self, index: sqlite3.Connection, rows: dict[str, Row]) -> None:
        now_unix = self._now_unix()
        if self._run is not None and not outbox.knows_run(index, self._run):
            outbox.import_run(index, self._run, now_unix)  # it is new, or the index was lost
        outbox.save(index, rows.values(), self._owner, now_unix)

    def _claim(self, index: sqlite3.Connection, sink: str) -> list[Row]:
        now_unix = self._now_unix()
        if not self._imported:  # once: it may take a moment, which the threads of sinks have
            outbox.import_runs(index, self._runs, now_unix)
        return outbox.claim(index, sink, self._owner, now_unix, self._only)

    def _is_saved(self, rows: dict[str, Row], found: list[Row]) -> None:
        with self._lock:
            for id, row in rows.items():
                if self._unsaved.get(id) is row:  # and not a later one
                    del self._unsaved[id]
            for row in found[: MOST_WAITING - len(self._waiting)]:
                self._waiting.setdefault(row.id, row)
