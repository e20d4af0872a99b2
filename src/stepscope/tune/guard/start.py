"""Starts a program that can write to some folders only:

    python -m stepscope.tune.guard.start --allow DIR --allow DIR -- PROGRAM ARGUMENT…

It becomes the program: same process, same environment, same signals. 126: the kernel cannot do it
or the program cannot be started, with a line that says why; 127: there is no such program.
"""

from __future__ import annotations

import os
import signal
import sys

__all__ = ["main"]

_CANNOT, _NOT_FOUND = 126, 127  # as shells have it
_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG


def main(arguments: list[str]) -> int:
    """Returns only when the program could not be started."""
    split = arguments.index("--") if "--" in arguments else len(arguments)
    options, command = arguments[:split], arguments[split + 1 :]
    if not command or options[::2] != ["--allow"] * (len(options) // 2) or len(options) % 2:
        return _tell("usage: start [--allow FOLDER]... -- PROGRAM [ARGUMENT]...")
    try:
        _restrict(options[1::2])
    except OSError as error:
        return _tell(f"the program's files cannot be kept from trials: {error}")
    _end_with_parent()
    # Python ignores these for itself, and what is ignored stays so in the program.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    try:
        os.execvpe(command[0], command, _environment())
    except FileNotFoundError:
        return _tell(f"there is no program {command[0]}", _NOT_FOUND)
    except OSError as error:
        return _tell(f"{command[0]} cannot be started: {error.strerror}")


def _find_stepscope() -> None:
    """As a file under `python -I -S` nothing but the standard library is found."""
    root = os.path.abspath(__file__).rsplit(os.sep, 4)[0]  # noqa: PTH100 - pathlib costs 5 ms
    if root not in sys.path:
        sys.path.append(root)


def _restrict(allowed: list[str]) -> None:
    _find_stepscope()
    from stepscope.tune.guard.landlock import restrict

    restrict(allowed)


def _end_with_parent() -> None:
    """A launcher that is killed can end nobody: the kernel does it then."""
    import ctypes

    ctypes.CDLL(None).prctl(_DEATH_SIGNAL, int(signal.SIGKILL), 0, 0, 0)


def _environment() -> dict[bytes, bytes]:
    """As it was given: Python itself may have set a locale since."""
    with open("/proc/self/environ", "rb") as file:  # noqa: PTH123
        entries = [entry.partition(b"=") for entry in file.read().split(b"\0") if entry]
    return {name: value for name, _, value in entries}


def _tell(line: str, code: int = _CANNOT) -> int:
    _find_stepscope()
    from stepscope.printer import say

    say(line)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
