"""The command line, one file a command.

What the user can act on is one line on stderr and exit code 2; everything else is a fault of ours
and shows its traceback.
"""

from __future__ import annotations

import sys

from stepscope.errors import StepscopeError

__all__ = ["main"]


def main(arguments: list[str] | None = None) -> int:
    """Runs the command line and gives its exit code."""
    from stepscope.cli.app import UsageMistake, app

    try:
        code = app(args=arguments, prog_name="stepscope", standalone_mode=False)
    except StepscopeError as error:
        return _refuse(str(error))
    except UsageMistake as mistake:
        return _refuse(mistake.format_message())
    except BrokenPipeError:  # the reader of our output has seen enough
        sys.stdout = None  # type: ignore[assignment]  # nothing is left to flush
        return 0
    except KeyboardInterrupt:
        return 130
    return code if isinstance(code, int) else 0


def _refuse(message: str) -> int:
    line = " ".join(message.split())
    print(f"stepscope: {line}", file=sys.stderr)  # noqa: T201
    return 2
