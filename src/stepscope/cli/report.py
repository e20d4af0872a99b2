"""`stepscope report [RUN]`"""

from __future__ import annotations

from typing import Annotated

import typer

__all__ = ["report"]


def report(
    run: Annotated[str, typer.Argument(help="A run folder, the name of a run, or latest.")] = "latest",
    json: Annotated[bool, typer.Option("--json", help="summary.json instead of the text.")] = False,
) -> None:
    """Show the report of a run again, also of one that was killed."""
    from stepscope.session.report import show_report

    show_report(run, json=json)
