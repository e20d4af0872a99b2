"""`stepscope watch`: shows a run on a terminal until the user leaves, or once."""

from __future__ import annotations

import json
import locale
import os
import sys
import termios
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, TextIO

from stepscope.config import RUNS_FOLDER
from stepscope.errors import StepscopeError
from stepscope.launch.process import die_as
from stepscope.model.live import LiveView, RunState
from stepscope.printer import show
from stepscope.report.glyphs import Glyphs, glyphs_for
from stepscope.session.view_source import ViewSource
from stepscope.store.live import live_to_dict
from stepscope.store.rundir import find_run

if TYPE_CHECKING:
    from rich.text import Text

    from stepscope.report.terminal import Terminal

__all__ = ["WatchOptions", "show_watch"]

_INTERVAL_S: Final = 1.0
_LEAVE: Final = {"q": 0, "interrupt": 130, "terminate": -15, "hangup": -1}


class WatchOptions(NamedTuple):
    """What the user asked for."""

    run: str = "latest"
    once: bool = False
    json: bool = False


def show_watch(options: WatchOptions) -> int:
    """Exit code. Without a terminal it is shown once."""
    run = find_run(Path(RUNS_FOLDER), options.run)
    source = ViewSource(run)
    if options.json:
        show(json.dumps(live_to_dict(_answered(source)), ensure_ascii=False))
    elif options.once or not _is_interactive(os.environ.get("TERM", "")):
        _print_once(_answered(source), sys.stdout)
    else:
        return die_as(_watch(run, source))
    return 0


def _answered(source: ViewSource, sleep: Callable[[float], None] = time.sleep) -> LiveView:
    """A view with something in it: a run that goes on is given the time to answer."""
    while (view := source.next()).state is RunState.STARTING:
        sleep(0.1)
    return view


def _is_interactive(term: str) -> bool:
    files = (sys.stdin, sys.stdout)
    return term not in ("", "dumb") and all(file is not None and file.isatty() for file in files)


def terminal_glyphs(file: TextIO) -> Glyphs:
    """Those of the terminal. Python writes UTF-8 in a C locale too; the terminal may have none."""
    said = locale.getencoding()
    return glyphs_for(file.encoding if glyphs_for(said).unicode else said)


def _print_once(view: LiveView, file: TextIO) -> None:
    from stepscope.report.console import console_on
    from stepscope.report.watch import snapshot

    console = console_on(file)
    for row in snapshot(view, console.width, terminal_glyphs(file), time.time()):
        row.rstrip()
        console.print(row, soft_wrap=True, end="\n")


def _watch(run: Path, source: ViewSource) -> int:
    """Exit code; negative: the signal that ended us."""
    from stepscope.report.terminal import Terminal

    view = source.next()
    glyphs = terminal_glyphs(sys.stdout)
    try:
        with Terminal(sys.stdin.fileno(), sys.stdout.fileno(), glyphs.encoding) as terminal:
            return _Watching(run, source, view, glyphs).on(terminal)
    except (OSError, termios.error):  # the terminal has gone
        return 1


class _Watching:
    """What is shown, and what was chosen."""

    def __init__(self, run: Path, source: ViewSource, view: LiveView, glyphs: Glyphs) -> None:
        from stepscope.report.watch_choice import Choice
        from stepscope.session.watch_capture import Looks

        self._source, self._view, self._glyphs = source, view, glyphs
        self._looks = Looks(run)
        self._choice = Choice(can_capture=not view.is_over and self._looks.can_ask())
        self._error = ""

    def on(self, terminal: Terminal) -> int:
        """Until a key or a signal ends it; gives the exit code."""
        next_look = time.monotonic() + _INTERVAL_S
        while True:
            self._draw(terminal)
            for key in terminal.wait(next_look - time.monotonic()):
                if key in _LEAVE:
                    return _LEAVE[key]
                self._press(key)
            if time.monotonic() >= next_look:
                next_look = time.monotonic() + _INTERVAL_S
                self._look()

    def _press(self, key: str) -> None:
        from stepscope.report.watch_choice import Pane, pressed, selected_at

        self._choice = pressed(self._choice, key, self._view)
        if key == "c" and self._choice.can_capture:
            about = self._choice.pane is Pane.ALERT and self._view.alerts
            alert = about[selected_at(self._choice, self._view)].id if about else ""
            self._choice = replace(self._choice, said=self._looks.ask(alert))

    def _look(self) -> None:
        if not self._choice.is_paused:
            self._next()
        can_capture = not self._view.is_over and (self._choice.can_capture or self._looks.can_ask())
        said = self._looks.news() or self._choice.said
        self._choice = replace(self._choice, said=said, can_capture=can_capture)

    def _next(self) -> None:
        """What is shown stays where the next cannot be had, with a note that says why."""
        try:
            self._view, self._error = self._source.next(), ""
        except (StepscopeError, OSError) as error:
            self._error = " ".join(str(error).split())

    def _draw(self, terminal: Terminal) -> None:
        from stepscope.report.watch import screen

        columns, rows = terminal.size()
        view = self._view
        if self._error:
            view = replace(view, notes=(*view.notes, self._error))
        made = screen(view, self._choice, (columns, rows), self._glyphs, time.time())
        terminal.draw(_as_rows(made, columns))


def _as_rows(texts: list[Text], columns: int) -> list[str]:
    """With the colours that this terminal has, or none where NO_COLOR is set."""
    from stepscope.report.console import console_on

    console = console_on(sys.stdout, columns)
    rows = []
    for text in texts:
        with console.capture() as captured:
            console.print(text, soft_wrap=True, end="")
        rows.append(captured.get())
    return rows
