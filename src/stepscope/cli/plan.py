"""`stepscope plan CMD…`"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from stepscope.config import Level, PlanWish, Settings

__all__ = ["WITH_VALUE", "add_to"]

WITH_VALUE = ("-o", "--output", "--name", "--memory", "--save")
_ABOUT = """Find which layers to recompute in backward, so that a training step fits a memory budget
at the least cost in time; apply it to the running program and measure it. The program is ended once
that is done (some 75 steps), before it can save anything more."""


def add_to(commands: Any) -> None:
    parser = commands.add_parser(
        "plan",
        help="fit training into a memory budget: which layers to recompute",
        description=_ABOUT,
        usage="stepscope plan (--memory SIZE | --save SHARE) [options] CMD…",
        epilog="CMD is train.py, -m package, python …, torchrun …, or any other command.",
        allow_abbrev=False,
    )
    output, name, memory, save = WITH_VALUE[:2], *WITH_VALUE[2:]
    parser.add_argument(
        memory, metavar="SIZE", default="", help="what tensors may take at most: 4GiB, 800MiB, 60%%"
    )
    parser.add_argument(
        save, metavar="SHARE", default="", help="how much of the peak to save: 40%%"
    )
    parser.add_argument(*output, metavar="DIR", type=Path, help="put the run there (new or empty)")
    parser.add_argument(name, default="", help="name of the run (default: time and script)")
    parser.add_argument(
        "--keep-going", action="store_true", help="train on with the plan, to the program's own end"
    )
    parser.add_argument("-q", "--quiet", action="store_true", help="no status line")
    parser.set_defaults(call=_plan, command=[])


def _plan(options: argparse.Namespace) -> int:
    from stepscope.session.command import RunOptions, profile_command
    from stepscope.session.plan_show import check_budget

    memory, save, command = _budget(options.memory, options.save, options.command)
    check_budget(memory, save)
    wish = PlanWish(memory, save, keep_going=options.keep_going)
    return profile_command(
        RunOptions(
            words=tuple(command),
            output=options.output,
            name=options.name,
            # Nothing else looks at the steps that are measured.
            settings=Settings(level=Level.PRODUCTION, plan=wish),
            quiet=options.quiet,
        )
    )


def _budget(memory: str, save: str, command: list[str]) -> tuple[str, str, list[str]]:
    """Where none stands in front of the command, one at its end is meant for us:
    `stepscope plan train.py --memory 4GiB`."""
    if memory or save or not command:
        return memory, save, command
    name, _, value = command[-1].partition("=")
    rest = command[:-1]
    if not value:
        name, value, rest = "".join(command[-2:-1]), command[-1], command[:-2]
    if name not in ("--memory", "--save") or not rest:
        return memory, save, command
    return (value, "", rest) if name == "--memory" else ("", value, rest)
