"""Numbers of stacks of one process → places in the code."""

from __future__ import annotations

from typing import NamedTuple

from stepscope.analyze.user_code import is_users, users_place
from stepscope.model.finding import Location
from stepscope.model.own_code import is_ours

__all__ = ["Frames"]

DEPTH = 24  # frames of a stack that are shown


class _Frame(NamedTuple):
    caller: int
    location: Location


class Frames:
    """`add` what `stack.frame` marks say; callers come before their callees."""

    def __init__(self) -> None:
        self._frames: dict[int, _Frame] = {}

    def add(self, number: int, text: str) -> None:
        caller, line, function, file = text.split("\t", 3)
        location = Location(file or None, int(line) or None, function)
        self._frames[number] = _Frame(int(caller), location)

    def stack(self, number: int) -> tuple[Location, ...]:
        """Innermost first; () for a stack that was not taken or not told."""
        found: list[Location] = []
        while number in self._frames and len(found) < DEPTH:
            frame = self._frames[number]
            if not is_ours(frame.location.file or "", frame.location.function or ""):
                found.append(frame.location)
            number = frame.caller
        return tuple(found)

    def users_lines(self, number: int) -> tuple[Location, ...]:
        """All of the user's, innermost first: what makes one stack another one to a reader. Where
        there is none, the whole stack."""
        stack = self.stack(number)
        lines = tuple(one for one in stack if is_users(one.file or "", one.function or ""))
        return lines or stack

    def users_line(self, number: int) -> Location:
        """The user's innermost line (analyze/user_code.py); nothing known: an empty place."""
        return users_place(self.stack(number))
