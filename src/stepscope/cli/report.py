"""`stepscope report [RUN]`"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from stepscope.cli.arguments import add_run

__all__ = ["add_to"]


def add_to(commands: Any) -> None:
    parser = commands.add_parser(
        "report",
        help="show the report of a run again",
        description="Show the report of a run again, also of one that was killed.",
        allow_abbrev=False,
    )
    add_run(parser)
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="the summary instead of the text")
    form.add_argument(
        "--html", action="store_true", help="make the run's report.html and print its path"
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        type=Path,
        help="with --html: write the page there, to share it",
    )
    parser.set_defaults(call=_report)


def _report(options: argparse.Namespace) -> int:
    from stepscope.session.report import show_report

    show_report(options.run, json=options.json, html=options.html, output=options.output)
    return 0
