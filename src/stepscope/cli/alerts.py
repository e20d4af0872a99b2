"""`stepscope alerts [RUN]`"""

from __future__ import annotations

import argparse
from typing import Any

__all__ = ["add_to"]

_ABOUT = """Show the alerts of a run that was watched (stepscope run --watch): when, what, where,
for how long, and who was told of it. What could not be delivered waits: --send tries again."""


def add_to(commands: Any) -> None:
    parser = commands.add_parser(
        "alerts",
        help="the alerts of a run, and who was told of them",
        description=_ABOUT,
        allow_abbrev=False,
    )
    parser.add_argument(
        "run",
        metavar="RUN",
        nargs="?",
        default=None,
        help="a run folder, the name of a run, or latest (default; with --send: all runs)",
    )
    parser.add_argument("--all", action="store_true", help="the alerts of all runs")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="a line of JSON for each run")
    form.add_argument(
        "--send", action="store_true", help="deliver what waits, with the run's rules"
    )
    parser.add_argument(
        "--rules",
        metavar="FILE",
        help="with --send: the rules whose sinks are used for all runs (default: each run's own)",
    )
    parser.set_defaults(call=_alerts)


def _alerts(options: argparse.Namespace) -> int:
    from stepscope.errors import UsageError

    if options.run is not None and options.all:
        raise UsageError("Name a run, or ask for --all of them.")
    if options.rules is not None and not options.send:
        raise UsageError("--rules FILE names the sinks to deliver with: use it with --send.")
    if options.send:
        from stepscope.session.alert_sending import send_waiting

        return send_waiting(options.run, options.rules)
    from stepscope.session.alerts import AlertsOptions, show_alerts

    show_alerts(AlertsOptions(options.run or "latest", options.all, options.json))
    return 0
