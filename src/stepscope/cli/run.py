"""`stepscope run CMD…`"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from stepscope.config import (
    DEFAULTS,
    WATCH_DEFAULT,
    Level,
    MemoryDetail,
    PlanWish,
    Replay,
    Settings,
)

__all__ = ["WITH_VALUE", "add_to", "is_option"]

WITH_VALUE = (
    "-o", "--output", "--name", "--level", "--plan", "--apply", "--watch", "--max-disk", "--replay",
)  # fmt: skip
_OF_PYTHON = ("-m", "-c")  # with these a command begins
_ABOUT = """Run a command and tell why it is slow. The program's input, output, exit code and
signals stay its own; stepscope speaks on stderr."""


def add_to(commands: Any) -> None:
    parser = commands.add_parser(
        "run",
        help="run a command and tell why it is slow",
        description=_ABOUT,
        usage="stepscope run [options] CMD…",
        epilog="CMD is train.py, -m package, python …, torchrun …, or any other command.",
        allow_abbrev=False,
    )
    output, name, level, plan, apply, watch, disk, replay = WITH_VALUE[:2], *WITH_VALUE[2:]
    parser.add_argument(*output, metavar="DIR", type=Path, help="put the run there (new or empty)")
    parser.add_argument(name, default="", help="name of the run (default: time and script)")
    parser.add_argument(
        level,
        choices=[each.value for each in Level],
        default=DEFAULTS.level.value,
        help="how much to record (default: %(default)s)",
    )
    parser.add_argument(
        "--memory", action="store_true", help="look at memory too: every tensor, by line and layer"
    )
    parser.add_argument(
        "--python-heap",
        action="store_true",
        help="with --memory: Python's own objects by line too (tracemalloc: slow)",
    )
    parser.add_argument(
        plan, metavar="FILE", type=Path, help="recompute what this checkpoint plan says"
    )
    parser.add_argument(
        apply, metavar="FILE", type=Path, help="make the changes in this stepscope.toml"
    )
    parser.add_argument(
        watch,
        metavar="RULES",
        default="",
        help="raise alerts while it runs, by the rules in this .toml file; "
        f"{WATCH_DEFAULT}: by the rules as they come",
    )
    parser.add_argument(
        disk,
        metavar="SIZE",
        default="",
        help="what a long run may take on disk (default: 200MB; 0: any)",
    )
    parser.add_argument(
        replay,
        choices=[each.value for each in Replay],
        default=DEFAULTS.replay.value,
        help="after the program, run operators of a step again to measure what other dtypes and "
        "layouts would save: auto (at most 5%% of the run and 3 s), full, off",
    )
    parser.add_argument("-q", "--quiet", action="store_true", help="no status line, no report")
    parser.add_argument(
        "--json", action="store_true", help="the summary as the last line on stderr, in JSON"
    )
    parser.set_defaults(call=_run, command=[])


def is_option(word: str) -> bool:
    """Whether it belongs to stepscope where it stands in front of the command."""
    return word.startswith("-") and word not in ("-", "--", *_OF_PYTHON)


def _run(options: argparse.Namespace) -> int:
    from stepscope.session.command import RunOptions, profile_command

    return profile_command(
        RunOptions(
            words=tuple(options.command),
            output=options.output,
            name=options.name,
            settings=Settings(
                Level(options.level),
                _memory(options),
                _plan(options),
                _changes(options),
                watch=_rules(options),
                limit_bytes=_limit(options),
                replay=Replay(options.replay),
            ),
            quiet=options.quiet,
            json=options.json,
        )
    )


def _changes(options: argparse.Namespace) -> str:
    if options.apply is None:
        return ""
    from stepscope.session.apply import changes_to_make

    return changes_to_make(options.apply)


def _rules(options: argparse.Namespace) -> str:
    """Read before the program starts: a mistake in them is told at once."""
    if not options.watch:
        return ""
    from stepscope.session.watch_rules import check_rules

    return check_rules(options.watch)


def _limit(options: argparse.Namespace) -> int:
    if not options.max_disk:
        return DEFAULTS.limit_bytes
    from stepscope.session.amounts import disk_limit_bytes

    return disk_limit_bytes(options.max_disk)


def _plan(options: argparse.Namespace) -> PlanWish | None:
    if options.plan is None:
        return None
    from stepscope.session.plan_show import check_plan

    return PlanWish(path=str(check_plan(options.plan)))


def _memory(options: argparse.Namespace) -> tuple[MemoryDetail, ...]:
    wanted = ((options.memory or options.python_heap, MemoryDetail.TENSORS),)
    return tuple(
        detail
        for is_wanted, detail in (*wanted, (options.python_heap, MemoryDetail.PYTHON))
        if is_wanted
    )
