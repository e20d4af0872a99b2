"""Parts of a profiled forward that could be recomputed at one go: a module's call, or the calls of
neighbours in an nn.Sequential."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, Final, NamedTuple

from stepscope.checkpointing.calls import Call
from stepscope.checkpointing.saved import SavedStep
from stepscope.checkpointing.windows import WindowStep
from stepscope.model.checkpoint_plan import Segment

__all__ = ["Piece", "Profiled", "pieces_of"]

# Lengths of runs that are tried: all of them up to a dozen neighbours, then ever fewer.
_LENGTHS: Final = (2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 16, 24, 32, 48, 64, 96, 128, 192)
_MOST_RUNS: Final = 400  # of one Sequential: more choices would take the solver too long


class Profiled(NamedTuple):
    """The same step, looked at in two ways. `forward_ms` by the key of a call, a median."""

    names: tuple[str, ...]  # of the modules, by their number
    modules: tuple[Any, ...]
    windows: WindowStep
    saved: SavedStep
    forward_ms: dict[tuple[int, int], float]


class Piece(NamedTuple):
    begin: int  # marks (windows.py)
    end: int
    backward: int
    forward_ms: float
    kept: range  # of SavedStep.kept
    operators: range
    inputs: dict[int, int]  # storage → bytes
    outputs: dict[int, int]
    calls: range  # of SavedStep.calls


def pieces_of(profiled: Profiled) -> dict[Segment, list[Piece]]:
    """For each segment its pieces, one a call. A segment of which a call has no backward, or was
    not seen in both steps, is left out: what recomputing it does cannot be told."""
    found: dict[Segment, list[Piece] | None] = {}
    numbers = {call.key: call.number for call in profiled.saved.calls}
    for segment, run in (*_single(profiled), *_runs(profiled)):
        piece = _piece(profiled, numbers, run)
        pieces = found.setdefault(segment, [])
        if piece is None:
            found[segment] = None
        elif pieces is not None:
            pieces.append(piece)
    return {segment: pieces for segment, pieces in found.items() if pieces}


def _single(profiled: Profiled) -> Iterator[tuple[Segment, tuple[Call, Call]]]:
    for call in profiled.windows.calls:
        if call.parent is not None:  # recomputing all of the model saves nothing while it runs
            yield Segment(profiled.names[call.module]), (call, call)


def _runs(profiled: Profiled) -> Iterator[tuple[Segment, tuple[Call, Call]]]:
    children: dict[int, list[Call]] = {}
    for call in profiled.windows.calls:
        if call.parent is not None:
            children.setdefault(call.parent.number, []).append(call)
    for call in profiled.windows.calls:
        below = children.get(call.number, [])
        if _is_plain_sequential(profiled, call.module, below):
            name = profiled.names[call.module]
            for first, last in _ranges(len(below)):
                yield Segment(name, first=first, last=last), (below[first], below[last])


def _is_plain_sequential(profiled: Profiled, module: int, below: list[Call]) -> bool:
    """Its forward is torch's own, and called each child once, in order."""
    import torch

    one, plain = profiled.modules[module], torch.nn.Sequential
    if not isinstance(one, plain) or type(one).forward is not plain.forward:
        return False
    return [profiled.modules[call.module] for call in below] == list(one)


def _ranges(count: int) -> Iterator[tuple[int, int]]:
    """First and last child of the runs to try, never all of them."""
    lengths = [length for length in _LENGTHS if length < count]
    starts = sum(count - length + 1 for length in lengths)
    every = -(-starts // _MOST_RUNS)
    for length in lengths:
        for first in range(0, count - length + 1, every):
            yield first, first + length - 1


def _piece(
    profiled: Profiled, numbers: dict[tuple[int, int], int], run: tuple[Call, Call]
) -> Piece | None:
    """numbers: of the calls of the step in which saved tensors were looked at."""
    windows, saved = profiled.windows, profiled.saved
    first, last = run
    if first.key not in numbers or last.key not in numbers:
        return None
    begin, end = windows.passages[first.number], windows.passages[last.number]
    if end.end < 0 or end.backward < 0:
        return None
    a, b = numbers[first.key], numbers[last.key]
    reach_a, reach_b = saved.reaches[a], saved.reaches[b]
    between = _siblings(windows.calls, first, last)
    return Piece(
        begin.begin,
        end.end,
        end.backward,
        sum(profiled.forward_ms[call.key] for call in between),
        range(reach_a.kept_from, reach_b.kept_to),
        range(reach_a.operators_from, reach_b.operators_to),
        reach_a.inputs,
        reach_b.outputs,
        range(a, saved.calls[b].stop),
    )


def _siblings(calls: list[Call], first: Call, last: Call) -> list[Call]:
    found = [calls[first.number]]
    while found[-1].number != last.number:
        found.append(calls[found[-1].stop])
    assert all(a.parent is b.parent for a, b in pairwise(found))
    return found
