"""What planning came to, for people: shown when the program has ended."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from stepscope.config import PLAN_FAILED, PLAN_PROGRESS
from stepscope.errors import FormatError
from stepscope.session.troubles import say

if TYPE_CHECKING:
    from stepscope.model.details import Details

__all__ = [
    "check_budget",
    "check_plan",
    "is_planned",
    "plan_exit_code",
    "plan_progress",
    "show_plan",
    "with_plan",
]


def check_budget(memory: str, save: str) -> None:
    """UsageError or MissingExtraError before the program is started, not after."""
    from stepscope.checkpointing.budget import budget_of
    from stepscope.checkpointing.solve import require_solver

    budget_of(memory or None, save=save or None)
    require_solver()


def check_plan(path: Path) -> Path:
    """Where it is, seen from anywhere. UsageError, FormatError: it cannot be applied."""
    from stepscope.store.plan_file import read_plan

    read_plan(path)
    return path.resolve()


def plan_progress(status: Path) -> str:
    """For the status line; "": nothing is planned."""
    try:
        return f" planning: {(status / PLAN_PROGRESS).read_text('utf-8')[:80]} "
    except OSError:
        return ""


def is_planned(run: Path) -> bool:
    """There is a plan, or it is known why there is none."""
    from stepscope.store.plan_file import PLAN_FILE

    return (run / PLAN_FILE).exists() or (run / PLAN_FAILED).exists()


def plan_exit_code(run: Path) -> int:
    """2: there is no plan."""
    from stepscope.store.plan_file import PLAN_FILE

    return 0 if (run / PLAN_FILE).exists() else 2


def with_plan(details: Details, run: Path) -> Details:
    """The details with the plan that was made in this run, if one was."""
    from stepscope.store.plan_file import PLAN_FILE, read_plan_report

    if not (run / PLAN_FILE).exists():
        return details
    from stepscope.model.checkpoint_details import Checkpointing

    try:
        found = replace(details.checkpointing or Checkpointing(), plan=read_plan_report(run))
    except FormatError as error:
        say(str(error))
        return details
    return replace(details, checkpointing=found)


def show_plan(run: Path, name: str, words: Sequence[str], file: TextIO) -> None:
    """The plan with its curve and costs, and how to use it; or why there is none."""
    from stepscope.store.plan_file import PLAN_FILE, read_plan_report

    try:
        report = read_plan_report(run)
    except FormatError as error:
        say(str(error))
        return
    if report is None:
        say(_why_not(run))
        return
    from stepscope.report.console import console_on
    from stepscope.report.plan import render_plan

    render_plan(report, name, console_on(file))
    plan = str(run / PLAN_FILE)
    say(f"use it unchanged:  stepscope run --plan {shlex.quote(plan)} {shlex.join(words)}")
    say(f"or in your code:   stepscope.CheckpointManager(model).apply_file({plan!r})")
    say(f"curve and layers:  stepscope report --html {name}")


def _why_not(run: Path) -> str:
    try:
        return (run / PLAN_FAILED).read_text("utf-8")
    except OSError:
        return (
            "there is no plan: the program ended before enough steps were seen (some 75 are needed:"
            " 9 to profile, 24 to try what recomputing costs, 40 to measure the plan in turns)."
        )
