"""The typer application: the commands and what they share."""

from __future__ import annotations

from typing import Annotated

import typer

from stepscope import __version__
from stepscope.cli.doctor import doctor
from stepscope.cli.report import report
from stepscope.cli.run import run
from stepscope.cli.runs import runs

__all__ = ["UsageMistake", "app"]

# The base of what typer raises for a wrong command line. typer carries click within itself or takes
# it from outside, depending on its version; BadParameter is the door that is always there.
UsageMistake = typer.BadParameter.__mro__[2]

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # help in plain text: rich costs more than the help is worth
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"stepscope {__version__}")
        raise typer.Exit


@app.callback()
def _stepscope(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Tells why training is slow, where, what to change and what it will gain."""


# Everything behind the first word that is no option of ours belongs to the program.
app.command(context_settings={"allow_interspersed_args": False, "ignore_unknown_options": True})(run)
app.command()(report)
app.command()(runs)
app.command()(doctor)
