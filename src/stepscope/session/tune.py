"""Tunes a program: tries what its findings suggest, and keeps what provably helps."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from stepscope.errors import UsageError
from stepscope.launch.command import resolve_command
from stepscope.model.change import Change
from stepscope.model.trial import Tuning
from stepscope.redact import redact
from stepscope.session.bench import BenchOptions, ProgramBench
from stepscope.session.troubles import say
from stepscope.session.tune_progress import TuneProgress
from stepscope.store.files import write_json
from stepscope.store.tuning_file import TUNING_FILE, write_changes
from stepscope.tune.changes import NAMES
from stepscope.tune.guard.guarded import available
from stepscope.tune.tuner import Tuner

__all__ = ["ALLOWED", "TuneOptions", "tune_command"]

# What may change the results, and is tried only where the user allows it.
ALLOWED = ("precision", "batch-size", "denormals", "order", "sharding", "threads")


class TuneOptions(NamedTuple):
    """What the user asked for. memory: a budget; then a checkpoint plan is looked for instead."""

    words: tuple[str, ...]
    budget_s: float = 600.0
    steps: int = 0
    only: tuple[str, ...] = ()
    skip: tuple[str, ...] = ()
    allow: tuple[str, ...] = ()
    memory: str = ""
    output: Path | None = None
    json: Path | None = None
    dry_run: bool = False
    diff: bool = False
    write: bool = False
    quiet: bool = False
    unguarded: bool = False


def tune_command(options: TuneOptions) -> int:
    """The exit code: 0 whatever was found. UsageError: the program cannot be tuned."""
    _check(options)
    command = resolve_command(list(options.words))
    folder = Path(tempfile.mkdtemp(prefix="stepscope-tune-"))
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)  # as Ctrl-C: nothing that was started is left behind
    try:
        with TuneProgress(options.budget_s, quiet=options.quiet) as progress:
            asked = BenchOptions(
                command, folder, options.budget_s, options.steps, guarded=not options.unguarded
            )
            bench = ProgramBench(asked, progress.tell)
            outcome = _outcome(bench, options)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if isinstance(outcome, Tuning):
        _show(outcome, command.label, options)
    else:
        _show_proposals(outcome, options)
    return 0


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def _outcome(bench: ProgramBench, options: TuneOptions) -> Tuning | Sequence[Change]:
    """What was found, or, where nothing is to be tried, what would be."""
    if options.dry_run:
        return _Chosen(bench, options).candidates(())
    if options.memory:
        return _planned(bench, options)
    return Tuner(_Chosen(bench, options), lambda one: _why_not(one, options)).run()


def _check(options: TuneOptions) -> None:
    if not options.unguarded and not available():
        raise UsageError(
            "Trials cannot be kept from your files here: that needs Landlock (Linux 5.19 or newer)."
            " Tune a copy of the project with --unguarded, which lets trials write as they do."
        )
    for name in (*options.only, *options.skip):
        if name not in NAMES:
            raise UsageError(f"There is no change {name!r}. The catalogue has: {', '.join(NAMES)}.")
    for word in options.allow:
        if word not in (*ALLOWED, "all"):
            raise UsageError(f"--allow takes no {word!r}, but: {', '.join(ALLOWED)} or all.")
    if options.memory:
        from stepscope.session.plan_show import check_budget

        check_budget(options.memory, "")
    if options.diff or options.write:
        from stepscope.tune.patch import patch_for

        patch_for((), Path.cwd())  # MissingExtraError now, not after ten minutes


def _why_not(change: Change, options: TuneOptions) -> str:
    """Why it is not tried; "": it may be."""
    if change.alters and not {change.alters, "all"} & set(options.allow):
        return f"may change the results: allow it with --allow {change.alters}"
    return ""


class _Chosen:
    """The bench, with what the user wants to be tried and not."""

    def __init__(self, bench: ProgramBench, options: TuneOptions) -> None:
        self._bench, self._options = bench, options
        self.tell, self.measure, self.runs_left = bench.tell, bench.measure, bench.runs_left

    def candidates(self, kept: Sequence[Change]) -> Sequence[Change]:
        only, skip = self._options.only, self._options.skip
        found = [one for one in self._bench.candidates(kept) if one.name not in skip]
        if not only:
            return found
        found = [one for one in found if one.name in only]
        from stepscope.advise.changes import asked_for

        cpus = len(os.sched_getaffinity(0))
        missing = [name for name in only if all(one.name != name for one in found)]
        return [*found, *(one for name in missing if (one := asked_for(name, cpus)) is not None)]


def _planned(bench: ProgramBench, options: TuneOptions) -> Tuning:
    from stepscope.session.tune_plan import plan_memory

    target = (options.output or Path(TUNING_FILE)).resolve()
    return plan_memory(bench, options.memory, target.with_name("stepscope-plan.json"))


# ---- what it came to ----


def _show(tuning: Tuning, name: str, options: TuneOptions) -> None:
    if options.json is not None:
        write_json(options.json, tuning.to_dict(), private=False)
    if not options.quiet and sys.stderr is not None:
        from stepscope.report.console import console_on
        from stepscope.report.tuning import render_tuning

        render_tuning(tuning, name, console_on(sys.stderr))
    if tuning.kept:
        target = options.output or Path(TUNING_FILE)
        write_changes(target, tuning.kept, shlex.join(redact(options.words)))
        if not options.quiet:
            use = f"stepscope run --apply {shlex.quote(str(target))} {shlex.join(options.words)}"
            say(f"use it unchanged:  {use}")
            if not (options.diff or options.write):
                say("or in your code:   the same command with --diff, or --write")
    if options.diff or options.write:
        from stepscope.session.tune_patch import show_patch

        show_patch(tuning, options.words, write=options.write)


def _show_proposals(found: Sequence[Change], options: TuneOptions) -> None:
    if not found:
        say("Nothing to change: no finding that a change without an edit answers.")
        return
    rows = [(one, _why_not(one, options)) for one in found]
    if options.json is not None:
        found_json = {"proposals": [one.to_dict() for one, _ in rows]}
        write_json(options.json, found_json, private=False)
    from stepscope.report.console import console_on
    from stepscope.report.tuning import render_proposals

    with suppress(BrokenPipeError):
        render_proposals(rows, console_on(sys.stdout))
