"""Time by stack → time by line and function."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from stepscope.model.lines import FunctionTime, LineProfile, LineTime
from stepscope.model.own_code import is_ours

__all__ = ["Frame", "Spent", "line_profile"]

Spent: TypeAlias = Mapping[tuple[int, int], Sequence[int]]  # (depth, stack) → (ns, samples)
_Function: TypeAlias = tuple[str, str]  # file, name


class Frame(NamedTuple):
    """What the number of a stack means: its innermost line, and the number of the rest."""

    caller: int
    file: str  # "": the code was gone before anybody could ask what it was
    function: str
    line: int


class _Times:
    def __init__(self) -> None:
        self.self_ns = self.total_ns = self.samples = 0

    def add(self, ns: int, samples: int) -> None:
        self.total_ns += ns
        self.samples += samples


def line_profile(spent: Spent, frames: Mapping[int, Frame]) -> LineProfile:
    """Lines get the time of the stacks that they are in, their own where they are innermost.

    Of a stack with a known depth, only what ran from the frame at that depth on counts: what lies
    outside called the block, it did not run in it.
    """
    lines: dict[tuple[str, str, int], _Times] = {}
    functions: dict[_Function, _Times] = {}
    total_ns = samples = unnamed_ns = 0
    for (depth, stack), (ns, count) in spent.items():
        total_ns += ns
        samples += count
        within = _within(stack, depth, frames)
        if not within:
            unnamed_ns += ns
            continue
        for line in {(frame.file, frame.function, frame.line) for frame in within}:
            lines.setdefault(line, _Times()).add(ns, count)
        for function in {(frame.file, frame.function) for frame in within}:
            functions.setdefault(function, _Times()).add(ns, count)
        inner = within[0]
        lines[inner.file, inner.function, inner.line].self_ns += ns
        functions[inner.file, inner.function].self_ns += ns
    return LineProfile(total_ns, samples, unnamed_ns, _functions(functions, lines, total_ns))


def _within(stack: int, depth: int, frames: Mapping[int, Frame]) -> list[Frame]:
    """The frames of the block that are known, innermost first. Code that is gone, and ours, counts
    to the line that called it, as code in C does."""
    chain = list(_chain(stack, frames))
    inside = chain[: max(len(chain) - depth + 1, 1)] if depth > 0 else chain
    return [frame for frame in inside if frame.file and not is_ours(frame.file, frame.function)]


def _chain(stack: int, frames: Mapping[int, Frame]) -> Iterator[Frame]:
    seen = set()
    while stack and stack not in seen:
        seen.add(stack)  # a file that was damaged may name itself as its caller
        frame = frames.get(stack)
        if frame is None:
            return
        yield frame
        stack = frame.caller


def _functions(
    functions: Mapping[_Function, _Times],
    lines: Mapping[tuple[str, str, int], _Times],
    total_ns: int,
) -> tuple[FunctionTime, ...]:
    lines_of: dict[_Function, list[LineTime]] = {}
    for (file, function, line), times in sorted(lines.items()):
        share = times.total_ns / total_ns if total_ns else 0.0
        made = LineTime(
            file, line, function, times.self_ns, times.total_ns, times.samples, share
        )  # fmt: skip
        lines_of.setdefault((file, function), []).append(made)
    found = [
        FunctionTime(
            file,
            function,
            times.self_ns,
            times.total_ns,
            times.samples,
            times.total_ns / total_ns if total_ns else 0.0,
            tuple(lines_of[file, function]),
        )
        for (file, function), times in functions.items()
    ]
    return tuple(sorted(found, key=lambda one: (-one.total_ns, -one.self_ns, one[:2])))
