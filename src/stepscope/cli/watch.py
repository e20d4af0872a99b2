"""`stepscope watch [RUN]`"""

from __future__ import annotations

import argparse
from typing import Any

from stepscope.cli.arguments import add_run

__all__ = ["add_to"]

_ABOUT = """Show a run while it goes on, or after: verdict, phases, resources, alerts and how they
were over time. Keys: q quits, ? shows the others. Where there is no terminal, it is shown once."""


def add_to(commands: Any) -> None:
    parser = commands.add_parser(
        "watch",
        help="watch a run while it goes on",
        description=_ABOUT,
        allow_abbrev=False,
    )
    add_run(parser)
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--once", action="store_true", help="print it once and leave")
    form.add_argument("--json", action="store_true", help="print it once as JSON")
    parser.set_defaults(call=_watch)


def _watch(options: argparse.Namespace) -> int:
    from stepscope.session.watching_view import WatchOptions, show_watch

    return show_watch(WatchOptions(options.run, options.once, options.json))
