"""What goes wrong inside stepscope while a program runs: counted and told, never raised."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType

from stepscope.errors import StepscopeError
from stepscope.printer import say

__all__ = ["Troubles", "say", "say_skipped"]

_MOST_SKIPPED = 20  # that are named


class Troubles:
    """The border with the user's program: what is done within `guard` cannot stop it."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def guard(self, what: str) -> _Guard:
        return _Guard(self, what)

    def add(self, line: str) -> None:
        if line not in self.lines:
            self.lines.append(line)


class _Guard:
    def __init__(self, troubles: Troubles, what: str) -> None:
        self._troubles = troubles
        self._what = what

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        if not isinstance(error, Exception):
            return False
        self._troubles.add(f"{self._what} failed: {_in_one_line(error)}")
        return True


def _in_one_line(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    if isinstance(error, StepscopeError):
        return str(error)
    # A fault of ours: its kind helps whoever is told of it.
    return f"{type(error).__name__}: {' '.join(str(error).split())}".rstrip(": ")


def say_skipped(folders: Sequence[str]) -> None:
    """`folders`: name and reason of each run folder that a listing leaves out."""
    shown = "; ".join(folders[:_MOST_SKIPPED])
    more = len(folders) - _MOST_SKIPPED
    count = "1 folder was" if len(folders) == 1 else f"{len(folders)} folders were"
    say(f"{count} skipped: {shown}{f'; and {more} more' if more > 0 else ''}")
