"""Where the views of a run come from, whether it runs, has finished or was killed."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from stepscope.errors import FormatError
from stepscope.model.live import LiveView, RunState, ToldNow
from stepscope.session.finished_view import view_of_finished, view_of_summary
from stepscope.session.live_view import command_line
from stepscope.store.live import read_live
from stepscope.store.live_request import request
from stepscope.store.rundir import read_meta

__all__ = ["ViewSource"]

PATIENCE_S: Final = 10.0  # with a launcher that was asked and says nothing
_ANSWER_S: Final = 4.0  # nobody answers: what was recorded is read instead
_EVENTS_SHARE: Final = 0.1  # of our own time may go into that


class ViewSource:
    """`next` once a second or so."""

    def __init__(self, run: Path, unix: Callable[[], float] = time.time) -> None:
        self._run, self._unix = run, unix
        self._asked_unix = 0.0
        self._first_unix = 0.0  # asked
        self._final: LiveView | None = None
        self._folded: LiveView | None = None
        self._next_fold_unix = 0.0
        self._notes: tuple[str, ...] = ()

    def next(self) -> LiveView:
        """The run as it is now. FormatError: its files are not what stepscope wrote."""
        if self._final is not None:
            return self._final
        meta = read_meta(self._run)
        now_unix = self._unix()
        if meta.get("ended_unix") is not None and (view := view_of_finished(self._run)) is not None:
            self._final = replace(view, told=self._told_last())
            return self._final
        self._ask(now_unix)
        return self._while_it_runs(meta, now_unix)

    def _told_last(self) -> tuple[ToldNow, ...]:
        """Losses are not in the results: as they were when the run was last shown."""
        try:
            live = read_live(self._run)
        except FormatError:
            return ()
        return live.told if live is not None else ()

    def _ask(self, now_unix: float) -> None:
        self._first_unix = self._first_unix or now_unix
        if abs(now_unix - self._asked_unix) >= 2.0:
            self._asked_unix = now_unix
            try:
                request(self._run, now_unix)
                self._notes = ()
            except OSError as error:
                why = f"its folder cannot be written ({error.strerror})"
                self._notes = (f"The run cannot be asked for news: {why}.",)

    def _while_it_runs(self, meta: Mapping[str, Any], now_unix: float) -> LiveView:
        live = read_live(self._run)
        if live is not None and now_unix - live.told_unix < PATIENCE_S:
            return replace(live, notes=(*live.notes, *self._notes))
        asked_for_s = now_unix - self._first_unix
        if is_gone(meta):
            view = self._folded_now(meta, now_unix, RunState.KILLED)
            # In another container processes have other numbers: who answers is not gone.
            self._final = view if asked_for_s >= _ANSWER_S else None
            return view
        if asked_for_s < _ANSWER_S:
            return self._starting(meta, now_unix)
        if live is None or live.told_unix < self._first_unix:
            return self._folded_now(meta, now_unix, RunState.RUNNING)
        if live.state is RunState.ENDING:  # the report is being made, and that takes its time
            return live
        return replace(live, state=RunState.NOT_RESPONDING)

    def _starting(self, meta: Mapping[str, Any], now_unix: float) -> LiveView:
        since = meta.get("started_unix")
        return LiveView(
            run=str(meta.get("name") or self._run.name),
            state=RunState.STARTING,
            told_unix=now_unix,
            command=command_line(meta),
            started_unix=since,
            elapsed_s=None if since is None else max(0.0, now_unix - since),
        )

    def _folded_now(self, meta: Mapping[str, Any], now_unix: float, state: RunState) -> LiveView:
        """Nobody answers, as with a program that profiles itself: from what it recorded."""
        if self._folded is None or now_unix >= self._next_fold_unix:
            begun = time.process_time()
            self._folded = self._from_events(meta, state)
            took_s = time.process_time() - begun
            self._next_fold_unix = now_unix + max(5.0, took_s / _EVENTS_SHARE)
        return replace(self._folded, notes=(*self._folded.notes, *self._notes))

    def _from_events(self, meta: Mapping[str, Any], state: RunState) -> LiveView:
        from stepscope.session.report import fold_run

        try:
            view = view_of_finished(self._run)
            if view is not None:
                return replace(view, state=state)
        except FormatError:
            pass  # the events can tell
        summary, details = fold_run(self._run)
        return replace(
            view_of_summary(self._run, meta, summary, details, state), told_unix=self._unix()
        )


def is_gone(meta: Mapping[str, Any]) -> bool:
    """Whether whoever should write the end of the run is no more. On another machine: not known."""
    host, pid = meta.get("host"), meta.get("launcher_pid")
    here = isinstance(host, Mapping) and host.get("name") == os.uname().nodename
    if not here or not isinstance(pid, int) or isinstance(pid, bool) or pid <= 0:
        return False
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return True
    except PermissionError:
        return False
    return False
