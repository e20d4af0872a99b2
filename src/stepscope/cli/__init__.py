"""The command line, one file a command.

What the user can act on is one line on stderr and exit code 2; everything else is a fault of ours
and shows its traceback.
"""

from __future__ import annotations

import io
import sys

from stepscope.errors import StepscopeError

__all__ = ["main"]


def main(arguments: list[str] | None = None) -> int:
    """Runs the command line and gives its exit code."""
    from stepscope.cli.parser import parse

    _write_what_can_be_written()
    try:
        return parse(sys.argv[1:] if arguments is None else arguments)()
    except StepscopeError as error:
        line = " ".join(str(error).split())
        print(f"stepscope: {line}", file=sys.stderr)  # noqa: T201
        return 2
    except BrokenPipeError:  # the reader of our output has seen enough
        sys.stdout = None  # nothing is left to flush
        return 0
    except KeyboardInterrupt:
        return 130


def _write_what_can_be_written() -> None:
    """What stdout has no characters for (a path need not be UTF-8) is spelled out, as on stderr;
    in JSON that is the right way to write it. Where bytes of paths pass as they are, they do."""
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="backslashreplace")
