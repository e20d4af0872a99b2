"""A summary for people, and for programs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from stepscope.model.summary import Summary

__all__ = ["show_summary", "summary_as_line"]


def show_summary(summary: Summary, file: TextIO) -> None:
    """The report as text."""
    from rich.console import Console

    from stepscope.report.text import render

    render(summary, Console(file=file))


def summary_as_line(summary: Summary) -> str:
    """The content of summary.json in one line."""
    return json.dumps(summary.to_dict(), ensure_ascii=False)
