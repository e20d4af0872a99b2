"""`stepscope memory [RUN or FILE]`"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

__all__ = ["add_to"]

_ABOUT = """Show where the bytes are: what the peak was made of, what grows and who holds it. Of a
run that was recorded with --memory, or of a file of torch: a CUDA memory snapshot (pickle or JSON)
or a raw memory timeline (.raw.json.gz)."""
_FORMS = ("perfetto", "csv", "parquet")


def add_to(commands: Any) -> None:
    parser = commands.add_parser(
        "memory",
        help="show where the bytes are, of a run or of a memory file of torch",
        description=_ABOUT,
        allow_abbrev=False,
    )
    parser.add_argument(
        "wanted",
        metavar="RUN or FILE",
        nargs="?",
        default="latest",
        help="a run folder, the name of a run, latest (default), or a memory file",
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="all of it in one line of JSON")
    form.add_argument("--html", action="store_true", help="a page, into the file behind -o")
    form.add_argument(
        "--export", choices=_FORMS, help="memory over time for other tools, into the file behind -o"
    )
    parser.add_argument("-o", "--output", metavar="FILE", type=Path, help="where to write it")
    parser.set_defaults(call=_memory)


def _memory(options: argparse.Namespace) -> int:
    from stepscope.session.memory_report import MemoryOptions, show_memory

    show_memory(
        MemoryOptions(options.wanted, options.json, options.html, options.export, options.output)
    )
    return 0
