"""`stepscope run CMD…`"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from stepscope.config import Level, Settings

__all__ = ["run"]


def run(
    command: Annotated[
        list[str] | None,
        typer.Argument(metavar="CMD…", help="train.py, -m package, python …, torchrun …, anything."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="DIR", help="Put the run there (new or empty)."),
    ] = None,
    name: Annotated[str, typer.Option(help="Name of the run.", show_default="time and script")] = "",
    level: Annotated[Level, typer.Option(help="How much to record.")] = Settings().level,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No status line, no report.")] = False,
    json: Annotated[
        bool, typer.Option("--json", help="The summary as one line of JSON on stderr, at the end.")
    ] = False,
) -> int:
    """Run a command and tell why it is slow.

    The program's input, output, exit code and signals stay its own; stepscope speaks on stderr.
    """
    from stepscope.session.command import RunOptions, profile_command

    return profile_command(
        RunOptions(
            words=tuple(command or ()),
            output=output,
            name=name,
            settings=Settings(level=level),
            quiet=quiet,
            json=json,
        )
    )
