"""`stepscope runs`"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from stepscope.config import RUNS_FOLDER

__all__ = ["add_to"]


def add_to(commands: Any) -> None:
    parser = commands.add_parser(
        "runs",
        help="list the runs",
        description="List the runs, newest first.",
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
    parser.set_defaults(call=_runs)


def _runs(options: argparse.Namespace) -> int:
    from stepscope.session.runs import show_runs

    show_runs(options.folder)
    return 0
