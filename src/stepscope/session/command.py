"""Profiles a command: starts it, follows what it records, and tells at its end.

The program comes first: its exit code, signals and output are its own, whatever happens here.
"""

from __future__ import annotations

import gc
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from stepscope.config import DEFAULTS, RUNS_FOLDER, Settings
from stepscope.launch.command import Command, resolve_command
from stepscope.launch.environment import child_environment
from stepscope.launch.process import Child, die_as, signals_held, start, stop_self
from stepscope.launch.status import open_status_line
from stepscope.printer import write_line
from stepscope.session.plan_show import is_planned, plan_exit_code, show_plan
from stepscope.session.show import show_summary, summary_as_line
from stepscope.session.troubles import Troubles, say
from stepscope.store.rundir import NewRun, create_run
from stepscope.store.status_folders import (
    make_status_folder,
    remove_status_folder,
    sweep_status_folders,
)

if TYPE_CHECKING:
    from stepscope.model.alert import Alert
    from stepscope.model.summary import Summary
    from stepscope.session.watch import Watch
    from stepscope.session.watching import Watching

__all__ = ["RunOptions", "profile_command"]


class RunOptions(NamedTuple):
    """What the user asked for."""

    words: tuple[str, ...]
    output: Path | None = None
    name: str = ""
    settings: Settings = DEFAULTS
    quiet: bool = False
    json: bool = False


def profile_command(options: RunOptions) -> int:
    """The exit code of the program; a program that a signal ended ends us by the same one."""
    # A third of our CPU time went into collecting what imports leave behind. It is on while the
    # program runs, and that is nearly all of the time.
    gc.disable()
    _occupy_closed_files()
    command = resolve_command(list(options.words))
    run = create_run(Path(RUNS_FOLDER), command.label, options.output, options.name)
    if run.notice:
        say(run.notice)
    with signals_held() as mask:
        sweep_status_folders()
        status = make_status_folder(run.path)
        environment = child_environment(os.environ, run.path, status, options.settings)
        watching = None
        try:
            watching = _watching(options, run)
            child = start(command, environment, mask)
        except BaseException:
            if watching is not None:
                watching.finish()
            remove_status_folder(status)
            shutil.rmtree(run.path, ignore_errors=True)  # it holds nothing of worth
            raise
        _profile(options, command, run, status, child, watching)
    if _is_planning(options) and is_planned(run.path):
        return plan_exit_code(run.path)  # however the program ended, which we did
    return die_as(child.join()) or (2 if _is_planning(options) else 0)


def _watching(options: RunOptions, run: NewRun) -> Watching | None:
    """Before the program starts: sinks that cannot be made are told at once."""
    if not options.settings.watch:
        return None
    from stepscope.session.watch_rules import load_rules
    from stepscope.session.watching import Watched, Watching

    settings = load_rules(options.settings.watch)
    watched = Watched(run.path, run.name, Path(RUNS_FOLDER))
    if options.quiet:
        return Watching(watched, settings)
    watching = Watching(watched, settings, _say_alert)
    for address in watching.pages:
        say(f"metrics: {address}")
    return watching


def _say_alert(alert: Alert) -> None:
    say(alert.message)


def _is_planning(options: RunOptions) -> bool:
    wish = options.settings.plan
    return wish is not None and not wish.path


def _profile(
    options: RunOptions,
    command: Command,
    run: NewRun,
    status: Path,
    child: Child,
    watching: Watching | None = None,
) -> None:
    troubles = Troubles()
    watch = None
    with troubles.guard("watching the program"):
        from stepscope.session.watch import Watch

        watch = Watch(run, command, options.settings, status, troubles, watching=watching)
        watch.start(child.pid)
    gc.freeze()  # what stands now stays: no need to look through it again and again
    gc.enable()
    with troubles.guard("following the program"):
        wish = options.settings.plan
        is_short = wish is not None and _is_planning(options) and not wish.keep_going
        _accompany(child, watch, options, (lambda: is_planned(run.path)) if is_short else None)
    exit_code = child.join()  # whatever happened to us
    gc.disable()
    summary = None
    if watch is not None:
        with troubles.guard("the report"):
            summary = watch.finish(exit_code, _silence if options.quiet else say)
    _tell(options, troubles, run, summary, watch.lost.lines() if watch is not None else [])


def _silence(_: str) -> None:
    """For who wants to hear nothing."""


def _tell(
    options: RunOptions, troubles: Troubles, run: NewRun, summary: Summary | None, lost: list[str]
) -> None:
    """Everything that stepscope has to say, on stderr; what a program reads comes last."""
    # A stderr that is closed is None, and whatever is given None writes to stdout.
    shown = summary is not None and not options.quiet and sys.stderr is not None
    if _is_planning(options) and sys.stderr is not None:
        shown = False
        with troubles.guard("showing the plan"):
            show_plan(run.path, _named(run.path), options.words, sys.stderr)
    if summary is not None and shown:
        with troubles.guard("showing the report"):
            show_summary(summary, sys.stderr, run.path)
            # Making it now would cost more than the launcher may use.
            say(f"charts, source lines and more: stepscope report --html {_named(run.path)}")
            if options.settings.memory:
                say(f"where the bytes are: stepscope memory {_named(run.path)}")
    if options.settings.changes and not options.quiet:
        with troubles.guard("telling of changes"):
            from stepscope.session.apply import applied_lines

            for line in applied_lines(run.path, options.settings.changes):
                say(line)
    for line in troubles.lines if shown else (*troubles.lines, *lost):
        say(line)
    if summary is not None and options.json and sys.stderr is not None:
        with troubles.guard("writing JSON"):
            write_line(summary_as_line(summary), sys.stderr)


def _named(run: Path) -> str:
    """As short as `stepscope report` takes it from here."""
    import shlex

    runs = Path(RUNS_FOLDER).resolve()
    return shlex.quote(run.name if run.parent == runs else str(run))


def _accompany(
    child: Child, watch: Watch | None, options: RunOptions, ends: Callable[[], bool] | None
) -> None:
    """Until the program ends: pass signals on, and look once in a while at what was recorded.
    `ends`: whether we are to end it."""
    line = open_status_line(2, os.environ, wanted=not options.quiet)
    interval_s = options.settings.poll_interval_s
    next_look = time.monotonic() + interval_s
    try:
        while child.status is None:
            number = child.wait(next_look - time.monotonic())
            if number == signal.SIGWINCH:
                line.resize()
            elif number == signal.SIGTSTP:
                line.close()
                stop_self()
            if watch is not None and time.monotonic() >= next_look:
                next_look = time.monotonic() + interval_s
                watch.look()
                if ends is not None and ends():
                    child.end()
                if line.is_shown:
                    line.show(watch.status())
    finally:
        line.close()


def _occupy_closed_files() -> None:
    """Started without stdin, stdout or stderr, the files we open would take their numbers, and
    what is meant for the user would go into them. The child still has them closed."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)  # gets the lowest number: this one
