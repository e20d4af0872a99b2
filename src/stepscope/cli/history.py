"""`stepscope history [DIR]`"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from stepscope.config import RUNS_FOLDER

__all__ = ["add_to"]

_ABOUT = """Show a figure over past runs, and the runs from which on it changed for good. Runs of
different commands are told apart."""


def add_to(commands: Any) -> None:
    parser = commands.add_parser(
        "history",
        help="a figure over past runs, and where it changed",
        description=_ABOUT,
        allow_abbrev=False,
    )
    parser.add_argument(
        "folder",
        metavar="DIR",
        nargs="?",
        type=Path,
        default=Path(RUNS_FOLDER),
        help="where the runs lie (default: %(default)s)",
    )
    parser.add_argument(
        "--metric",
        default="step",
        help="step (default: the median), fast, loop, p95, throughput, memory or startup",
    )
    parser.add_argument(
        "--name", metavar="GLOB", default="", help="only runs with such names, as one series"
    )
    parser.add_argument("--json", action="store_true", help="JSON instead of the text")
    parser.set_defaults(call=_history)


def _history(options: argparse.Namespace) -> int:
    from stepscope.session.history import HistoryOptions, show_history

    show_history(HistoryOptions(options.folder, options.metric, options.name, options.json))
    return 0
