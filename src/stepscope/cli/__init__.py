"""The command line, one file a command.

What the user can act on is one line on stderr and exit code 2; everything else is a fault of ours
and shows its traceback.
"""

from __future__ import annotations

import io
import sys

from stepscope.errors import StepscopeError
from stepscope.printer import say, write_line

__all__ = ["main"]


def main(arguments: list[str] | None = None) -> int:
    """Runs the command line and gives its exit code."""
    from stepscope.cli.parser import parse

    _write_what_can_be_written()
    try:
        return parse(sys.argv[1:] if arguments is None else arguments)()
    except StepscopeError as error:
        say(" ".join(str(error).split()))
        return 2
    except BrokenPipeError:  # the reader of our output has seen enough
        sys.stdout = None  # nothing is left to flush
        return 0
    except KeyboardInterrupt:
        return 130
    except Exception:  # noqa: BLE001 - a traceback may quote what a file said, so we print it
        import traceback

        if sys.stderr is not None:
            write_line(traceback.format_exc(), sys.stderr)
        return 1


def _write_what_can_be_written() -> None:
    """Spell out characters that the encoding of stdout lacks, as Python does on stderr."""
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="backslashreplace")
