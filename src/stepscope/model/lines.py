"""Where the time of a block went, by function and line."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["FunctionTime", "LineProfile", "LineTime"]


class LineTime(NamedTuple):
    """One line. Times are estimates from samples: with n of them, good to about 1 in √n."""

    file: str
    line: int
    function: str
    self_ns: int  # in the line itself, calls into C included
    total_ns: int  # and in the Python functions that it called; recursion counts once
    samples: int
    share: float  # of the block's time, by total_ns


class FunctionTime(NamedTuple):
    """One function and those of its lines in which it was seen, from top to bottom."""

    file: str
    function: str
    self_ns: int
    total_ns: (
        int  # not the sum of its lines: a function that calls itself is in two of them at once
    )
    samples: int
    share: float
    lines: tuple[LineTime, ...]


class LineProfile(NamedTuple):
    """All runs of a block together; functions with the most time first."""

    total_ns: int = 0
    samples: int = 0
    unnamed_ns: int = 0  # of it, in stacks of which nobody told what they are
    functions: tuple[FunctionTime, ...] = ()

    @property
    def lines(self) -> list[LineTime]:
        """The lines of all functions, those with the most time of their own first."""
        found = [line for function in self.functions for line in function.lines]
        return sorted(found, key=lambda line: (-line.self_ns, -line.total_ns, line.file, line.line))
