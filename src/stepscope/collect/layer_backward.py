"""Marks of the autograd engine → how long each module call's part of a backward took.

One thread of the engine runs the nodes of a graph in the reverse order of their making, so what a
module call made runs in one piece, the calls inside it nested in that piece, the last one first. A
piece begins when the gradient of the call's output is there; it ends when the gradient of its input
is there, or the piece of another call begins.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

__all__ = ["LayerCall", "Mark", "set_backward_times"]


class LayerCall:
    """One call of a module: forward, and what autograd did for it later. Times in ns."""

    __slots__ = (
        "backward_from", "backward_inside", "backward_lasted", "backward_start",
        "end", "inside", "lasted", "number", "own", "parent", "saved", "start",
    )  # fmt: skip

    def __init__(self, number: int, parent: LayerCall | None) -> None:
        self.number = number  # of the layer; negative: not of interest
        self.parent = parent
        self.start = self.end = 0
        self.own = 0  # what we took within it
        self.lasted = 0  # without that
        self.inside = 0  # of `lasted`, in calls inside it
        self.saved = -1  # bytes that it keeps for backward; -1: not looked at
        self.backward_start = 0  # 0: no gradient came by
        self.backward_lasted = self.backward_inside = 0
        self.backward_from = 0  # while it is open


# Time; the call, None: the engine is done; whether this is its end.
Mark: TypeAlias = tuple[int, LayerCall | None, bool]


def set_backward_times(marks: Iterable[Mark]) -> None:
    """Fill in the `backward_…` of the calls, from their marks in the order of time."""
    open_calls: list[LayerCall] = []  # the outermost first
    for time_ns, call, ends in marks:
        if call is None:
            _close(open_calls, 0, time_ns)
        elif ends:
            if call in open_calls:
                _close(open_calls, open_calls.index(call), time_ns)
        elif call not in open_calls:
            _open(open_calls, call, time_ns)
    # A run of the engine that did not come to its end tells nothing more.


def _open(open_calls: list[LayerCall], call: LayerCall, time_ns: int) -> None:
    """A call begins within those that it was made in; every other one is over."""
    chain: list[LayerCall] = []
    around: LayerCall | None = call
    while around is not None and around.number >= 0:
        chain.append(around)
        around = around.parent
    chain.reverse()
    shared = 0
    while shared < min(len(open_calls), len(chain)) and open_calls[shared] is chain[shared]:
        shared += 1
    _close(open_calls, shared, time_ns)
    for one in chain[shared:]:
        one.backward_from = time_ns
        one.backward_start = one.backward_start or time_ns
        open_calls.append(one)


def _close(open_calls: list[LayerCall], keep: int, time_ns: int) -> None:
    while len(open_calls) > keep:
        call = open_calls.pop()
        lasted_ns = time_ns - call.backward_from
        call.backward_lasted += lasted_ns
        if open_calls:
            open_calls[-1].backward_inside += lasted_ns
