"""`stepscope grafana [-o FILE]`"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

__all__ = ["add_to"]


def add_to(commands: Any) -> None:
    parser = commands.add_parser(
        "grafana",
        help="write a dashboard for Grafana",
        description="Write a dashboard of all metrics, as JSON for Grafana to import.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "-o", "--output", metavar="FILE", type=Path, help="write it there, not to standard output"
    )
    parser.set_defaults(call=_grafana)


def _grafana(options: argparse.Namespace) -> int:
    from stepscope.session.grafana import write_dashboard

    write_dashboard(options.output)
    return 0
