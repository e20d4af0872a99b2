"""A summary for people, and for programs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, TextIO

from stepscope.errors import FormatError

if TYPE_CHECKING:
    from pathlib import Path

    from stepscope.model.checkpoint_details import Checkpointing
    from stepscope.model.summary import Summary

__all__ = ["show_summary", "summary_as_line"]


def show_summary(summary: Summary, file: TextIO, run: Path | None = None) -> None:
    """The report as text. `run`: its folder, where details are read that a finding asks for."""
    from stepscope.report.console import console_on
    from stepscope.report.text import render

    render(summary, console_on(file), _checkpointing(summary, run))


def _checkpointing(summary: Summary, run: Path | None) -> Checkpointing | None:
    """Only where it is among the findings: reading details takes time."""
    if run is None or all(finding.kind != "recompute" for finding in summary.findings):
        return None
    from stepscope.store.details import read_details

    try:
        details = read_details(run)
    except FormatError:  # the summary can be shown all the same
        return None
    return details.checkpointing if details is not None else None


def summary_as_line(summary: Summary) -> str:
    """The content of summary.json in one line."""
    return json.dumps(summary.to_dict(), ensure_ascii=False)
