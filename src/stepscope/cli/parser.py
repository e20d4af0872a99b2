"""The arguments → the command to call.

argparse, not typer: typer brings pydantic, and both are loaded before the program can start. That
was 100 ms of CPU for each run.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import NoReturn

from stepscope import __version__
from stepscope.cli import (
    alerts,
    capture,
    compare,
    doctor,
    grafana,
    history,
    memory,
    plan,
    report,
    run,
    runs,
    tune,
    watch,
)
from stepscope.errors import UsageError

__all__ = ["parse"]

# In front of these stands the program's own command line; the options that take a value.
_COMMANDS = {"run": run.WITH_VALUE, "plan": plan.WITH_VALUE, "tune": tune.WITH_VALUE}
# In the order in which the help lists them.
_MODULES = (
    run,
    tune,
    plan,
    watch,
    alerts,
    capture,
    report,
    memory,
    compare,
    history,
    runs,
    grafana,
    doctor,
)
_ABOUT = "Tells why training is slow, where, what to change and what it will gain."


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}. See: {self.prog} --help")


def parse(arguments: list[str]) -> Callable[[], int]:
    """What to do, ready to be called. UsageError: the arguments are wrong."""
    parser = _Parser(prog="stepscope", description=_ABOUT, allow_abbrev=False)
    parser.add_argument("--version", action="version", version=f"stepscope {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    for module in _MODULES:
        module.add_to(commands)
    ours, command = _split(arguments)
    options = parser.parse_args(ours)
    if not hasattr(options, "call"):
        return lambda: _help(parser)
    if command:
        options.command = command
    return lambda: int(options.call(options))


def _split(arguments: list[str]) -> tuple[list[str], list[str]]:
    """Behind these commands, everything from the first word that is no option of ours is the
    program's."""
    with_value = _COMMANDS.get("".join(arguments[:1]))
    if with_value is None:
        return arguments, []
    at = 1
    while at < len(arguments) and run.is_option(arguments[at]):
        at += 2 if arguments[at] in with_value else 1
    skip = 1 if arguments[at : at + 1] == ["--"] else 0
    return arguments[:at], arguments[at + skip :]


def _help(parser: argparse.ArgumentParser) -> int:
    parser.print_help(sys.stderr)
    return 2
