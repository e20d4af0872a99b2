"""`stepscope compare A B`"""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import Any

from stepscope.errors import UsageError

__all__ = ["add_to"]

_ABOUT = """Compare two groups of runs: step time, memory, phases and verdicts, with intervals. A
group is a run, a folder of runs, a pattern ('before-*'), or several of these with commas."""
_CODES = """Exit code 1: a regression is proved; 3 with --strict: nothing is proved; 2: a mistake in
the call; else 0. Record at least five runs of each, in turns (A B B A …)."""


def add_to(commands: Any) -> None:
    parser = commands.add_parser(
        "compare",
        help="tell whether runs became slower, for CI",
        description=_ABOUT,
        epilog=_CODES,
        allow_abbrev=False,
    )
    parser.add_argument("groups", metavar="A B", nargs="*", help="the runs before, and after")
    parser.add_argument("--base", metavar="RUNS", help="instead of A")
    parser.add_argument("--new", metavar="RUNS", help="instead of B")
    parser.add_argument(
        "--fail-over",
        metavar="5%",
        type=_share,
        default=0.05,
        help="the slow-down, or growth of memory, that is to be found (default: 5%%)",
    )
    parser.add_argument(
        "--strict", action="store_true", help="exit code 3 where nothing could be proved"
    )
    parser.add_argument("--junit", metavar="FILE", type=Path, help="write JUnit XML too")
    form = parser.add_mutually_exclusive_group()
    form.add_argument(
        "--markdown",
        metavar="FILE",
        nargs="?",
        const=Path("-"),
        type=Path,
        help="write Markdown too; without FILE: on stdout instead of the text",
    )
    form.add_argument("--json", action="store_true", help="JSON instead of the text")
    parser.set_defaults(call=_compare)


def _compare(options: argparse.Namespace) -> int:
    from stepscope.session.compare import CompareOptions, show_comparison

    base, new = _groups(options)
    return show_comparison(
        CompareOptions(
            base=base,
            new=new,
            fail_over=options.fail_over,
            strict=options.strict,
            junit=options.junit,
            markdown=options.markdown,
            json=options.json,
        )
    )


def _groups(options: argparse.Namespace) -> tuple[str, str]:
    named = list(options.groups)
    base = named.pop(0) if options.base is None and named else options.base
    new = named.pop(0) if options.new is None and named else options.new
    if named or base is None or new is None:
        raise UsageError(
            "compare needs two groups of runs: stepscope compare A B, or --base A --new B. A group"
            " of several runs is written with commas or as a quoted pattern ('before-*')."
        )
    return base, new


def _share(text: str) -> float:
    """5%, 5 or 0.05: five in a hundred."""
    number, percent = text.strip().removesuffix("%").strip(), text.strip().endswith("%")
    try:
        value = float(number)
    except ValueError:
        value = math.nan
    share = value / 100 if percent or value >= 1 else value
    if not 0 <= share < 10:
        raise UsageError(f"--fail-over {text} is no share: write it as 5%.")
    return share
