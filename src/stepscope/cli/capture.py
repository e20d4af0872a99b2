"""`stepscope capture PID|RUN`"""

from __future__ import annotations

import argparse
from typing import Any

from stepscope.errors import UsageError

__all__ = ["add_to"]

_ABOUT = """Ask a program that runs under stepscope run for a closer look at its next steps, without
a restart: stacks a thousand times a second, every layer, and where asked for operators and memory.
Then everything is as it was."""
_LONGEST_S = 600.0


def add_to(commands: Any) -> None:
    parser = commands.add_parser(
        "capture",
        help="take a closer look at a program that runs",
        description=_ABOUT,
        allow_abbrev=False,
    )
    parser.add_argument(
        "wanted",
        metavar="PID or RUN",
        nargs="?",
        default="latest",
        help="a process of the run, a run folder, the name of a run, or latest (default)",
    )
    parser.add_argument(
        "--steps", metavar="N", type=int, default=20, help="how many steps at most (default 20)"
    )
    parser.add_argument(
        "--for",
        dest="time",
        metavar="TIME",
        default="10s",
        help="how long at most, as 10s or 2m (default 10s)",
    )
    parser.add_argument(
        "--memory", action="store_true", help="which lines hold more with every step"
    )
    parser.add_argument(
        "--operators", action="store_true", help="operators of three of the steps (torch.profiler)"
    )
    parser.add_argument("--json", action="store_true", help="all of it in one line of JSON")
    parser.set_defaults(call=_capture)


def _capture(options: argparse.Namespace) -> int:
    from stepscope.session.capture import CaptureOptions, capture

    capture(
        CaptureOptions(
            options.wanted,
            options.steps,
            _limit(options.time),
            memory=options.memory,
            operators=options.operators,
            json=options.json,
        )
    )
    return 0


def _limit(text: str) -> float:
    from stepscope.session.amounts import duration_s

    limit_s = duration_s("--for", text)
    if limit_s > _LONGEST_S:
        raise UsageError(f"--for {text} is too long: a capture takes at most 10 minutes.")
    return limit_s
