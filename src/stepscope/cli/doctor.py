"""`stepscope doctor`"""

from __future__ import annotations

import argparse
from typing import Any

__all__ = ["add_to"]


def add_to(commands: Any) -> None:
    parser = commands.add_parser(
        "doctor",
        help="show what stepscope finds on this machine",
        description="Show what stepscope finds here: core, packages, torch, GPU, /proc, runs.",
        allow_abbrev=False,
    )
    parser.set_defaults(call=_doctor)


def _doctor(_: argparse.Namespace) -> int:
    from stepscope.session.doctor import show_doctor

    show_doctor()
    return 0
