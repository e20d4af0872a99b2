"""Arguments that several commands have."""

from __future__ import annotations

import argparse

__all__ = ["add_run"]


def add_run(parser: argparse.ArgumentParser) -> None:
    """Which run: `options.run`, as store/rundir.py finds it."""
    parser.add_argument(
        "run",
        metavar="RUN",
        nargs="?",
        default="latest",
        help="a run folder, the name of a run, or latest (default)",
    )
