"""`stepscope tune CMD…`"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from stepscope.errors import UsageError

__all__ = ["WITH_VALUE", "add_to"]

WITH_VALUE = (
    "-o", "--output", "--budget", "--steps", "--only", "--skip", "--allow", "--memory", "--json",
)  # fmt: skip
_ABOUT = """Make a training program faster, and prove it: profile it, try what its findings suggest
by running it again for some steps in turns with the program as it is, and keep what provably helps.
The program's files are not touched: what trials write goes into a folder that is deleted. Writes
stepscope.toml, for stepscope run --apply."""


def add_to(commands: Any) -> None:
    parser = commands.add_parser(
        "tune",
        help="make a program faster, and prove it",
        description=_ABOUT,
        usage="stepscope tune [options] CMD…",
        epilog="CMD is train.py, -m package, python … or any other command.",
        allow_abbrev=False,
    )
    parser.add_argument("--budget", metavar="TIME", default="10m", help="90s, 10m (default), 1h")
    parser.add_argument(
        "--steps", metavar="N", type=int, default=0, help="steps of a trial (default: some seconds)"
    )
    parser.add_argument("--only", metavar="NAMES", default="", help="try these changes only")
    parser.add_argument("--skip", metavar="NAMES", default="", help="do not try these")
    parser.add_argument(
        "--allow",
        metavar="WHAT",
        default="",
        help="try what may change the results: precision, batch-size, denormals, order, sharding,"
        " threads, or all",
    )
    parser.add_argument(
        "--memory", metavar="SIZE", default="", help="fit into 4GiB or 60%% instead of faster"
    )
    parser.add_argument("--dry-run", action="store_true", help="only say what would be tried")
    parser.add_argument("--diff", action="store_true", help="print a patch of the source, too")
    parser.add_argument("--write", action="store_true", help="write the changes into the source")
    parser.add_argument(
        "-o", "--output", metavar="FILE", type=Path, help="in place of stepscope.toml"
    )
    parser.add_argument("--json", metavar="FILE", type=Path, help="all results, as JSON")
    parser.add_argument(
        "--unguarded", action="store_true", help="let trials write where the program writes"
    )
    parser.add_argument("-q", "--quiet", action="store_true", help="no progress, no table")
    parser.set_defaults(call=_tune, command=[])


def _tune(options: argparse.Namespace) -> int:
    from stepscope.session.amounts import duration_s
    from stepscope.session.tune import TuneOptions, tune_command

    if options.steps < 0:
        raise UsageError(f"--steps {options.steps} is not possible: from 1 on.")
    return tune_command(
        TuneOptions(
            words=tuple(options.command),
            budget_s=duration_s("--budget", options.budget),
            steps=options.steps,
            only=_names(options.only),
            skip=_names(options.skip),
            allow=_names(options.allow),
            memory=options.memory,
            output=options.output,
            json=options.json,
            dry_run=options.dry_run,
            diff=options.diff,
            write=options.write,
            quiet=options.quiet,
            unguarded=options.unguarded,
        )
    )


def _names(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())
