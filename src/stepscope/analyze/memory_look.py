"""One step, every block of which was told, played again: memory by category, and its peak.

What a block is for is known at its end only: it may have been labelled (a parameter, a gradient,
…), and otherwise follows from when it came and went.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from stepscope.model import names
from stepscope.model.memory import (
    ACTIVATION,
    CATEGORIES,
    INPUT,
    OTHER,
    TEMPORARY,
)

__all__ = ["ALLOC", "FREE", "LABEL", "UNKNOWN", "WORKSPACE", "BlockEvent", "Group", "Look", "play"]

ALLOC, FREE, LABEL = range(3)
UNKNOWN, WORKSPACE = 0, 8  # labels; between them the places of CATEGORIES, from 1
_INPUT_SPANS: Final = ("input.", "worker.", names.TRANSFER)  # how their names begin
_AT: Final = {category: place for place, category in enumerate(CATEGORIES)}


class BlockEvent(NamedTuple):
    """A row of the trace: see model/names.py, MEMORY_ALLOC and the like."""

    what: int  # ALLOC, FREE or LABEL
    time_ns: int
    address: int
    bytes: int
    stack: int
    layer: int
    label: int
    span: str


class Group(NamedTuple):
    """Blocks that belong together."""

    category: str
    stack: int
    layer: int


class LookPoint(NamedTuple):
    time_ns: int
    bytes: tuple[int, ...]  # in the order of CATEGORIES


@dataclass(frozen=True, slots=True)
class Look:
    """points: after every event. peak: what there was at the highest of them, bytes and blocks."""

    step: int
    peak_bytes: int
    peak_ns: int
    peak: Mapping[Group, tuple[int, int]]
    points: tuple[LookPoint, ...]


class _Block:
    __slots__ = ("born", "bytes", "died", "label", "layer", "span", "stack")

    def __init__(self, born: int, event: BlockEvent) -> None:
        self.born = born
        self.died: int | None = None
        self.bytes, self.stack, self.layer = event.bytes, event.stack, event.layer
        self.span, self.label = event.span, event.label


def play(
    step: int,
    held: Mapping[tuple[int, int], tuple[int, int]],
    events: Sequence[BlockEvent],
    begin_ns: int,
) -> Look:
    """`held`: (stack, label) → bytes and blocks when the look began."""
    blocks, gone = _blocks(events)
    moments = _Moments(events)
    groups = {at: _group(block, moments) for at, block in blocks.items()}
    usual = _usual_categories(blocks, groups)
    # What is not labelled yet and is told to be something before it goes: that is what it was.
    old = {key: _old_category(key, usual) for key in held}
    live: Counter[Group] = Counter()
    count: Counter[Group] = Counter()
    for key, (size, number) in held.items():
        group = Group(old[key], key[0], 0)
        live[group] += size
        count[group] += number
    totals = [0] * len(CATEGORIES)
    for group, size in live.items():
        totals[_AT[group.category]] += size
    points = [LookPoint(begin_ns, tuple(totals))]
    peak, peak_ns, peak_after = sum(totals), begin_ns, 0
    changes: list[tuple[Group, int]] = []
    for at, event in enumerate(events):
        if event.what == LABEL:
            continue
        if event.what == ALLOC:
            group, size = groups[at], event.bytes
        else:
            born = gone.get(at)
            key = (event.stack, event.label)
            first = old.get(key) or old.get((event.stack, UNKNOWN)) or OTHER
            group = groups[born] if born is not None else Group(first, event.stack, 0)
            size = -event.bytes
        changes.append((group, size))
        totals[_AT[group.category]] += size
        points.append(LookPoint(event.time_ns, tuple(totals)))
        if sum(totals) > peak:
            peak, peak_ns, peak_after = sum(totals), event.time_ns, len(changes)
    for group, size in changes[:peak_after]:
        live[group] += size
        count[group] += 1 if size > 0 else -1
    made = {group: (size, count[group]) for group, size in live.items() if size > 0}
    return Look(step, peak, peak_ns, made, tuple(points))


def _blocks(events: Sequence[BlockEvent]) -> tuple[dict[int, _Block], dict[int, int]]:
    """Those that came within the look, by the place of their event; and where those went: place of
    the free → place of the allocation."""
    blocks: dict[int, _Block] = {}
    alive: dict[int, int] = {}  # address → place
    gone: dict[int, int] = {}
    for at, event in enumerate(events):
        if event.what == ALLOC:
            blocks[at] = _Block(at, event)
            alive[event.address] = at
        elif event.what == FREE and event.address in alive:
            born = alive.pop(event.address)
            blocks[born].died = at
            blocks[born].label = event.label or blocks[born].label
            gone[at] = born
        elif event.what == LABEL and event.address in alive:
            blocks[alive[event.address]].label = event.label
    return blocks, gone


class _Moments:
    """Where runs of backward and of forward begin."""

    def __init__(self, events: Sequence[BlockEvent]) -> None:
        self.backwards = _starts(events, names.BACKWARD)
        self.forwards = _starts(events, names.FORWARD)

    def next_backward(self, at: int) -> int | None:
        return _next(self.backwards, at)

    def next_forward(self, at: int) -> int | None:
        return _next(self.forwards, at)


def _starts(events: Sequence[BlockEvent], span: str) -> list[int]:
    found, before = [], ""
    for at, event in enumerate(events):
        if event.what == LABEL:
            continue
        if event.span == span and before != span:
            found.append(at)
        before = event.span
    return found


def _next(places: Sequence[int], at: int) -> int | None:
    place = bisect_left(places, at)
    return places[place] if place < len(places) else None


def _group(block: _Block, moments: _Moments) -> Group:
    return Group(_category(block, moments), block.stack, block.layer)


def _category(block: _Block, moments: _Moments) -> str:
    if UNKNOWN < block.label < WORKSPACE:
        return CATEGORIES[block.label - 1]
    if block.label == WORKSPACE:
        return OTHER if block.died is None else TEMPORARY
    if block.span.startswith(_INPUT_SPANS):
        return INPUT
    if block.span == names.BACKWARD or block.span.startswith("optimizer."):
        return OTHER if block.died is None else TEMPORARY
    backward, forward = moments.next_backward(block.born), moments.next_forward(block.born)
    comes_first = forward is not None and (backward is None or forward < backward)
    if block.span != names.FORWARD and comes_first:
        return _before_forward(block, forward)
    if backward is None:  # after the last one
        return OTHER if block.died is None else TEMPORARY
    return ACTIVATION if block.died is None or block.died >= backward else TEMPORARY


def _before_forward(block: _Block, forward: int | None) -> str:
    """Something of the loop's own: what the model does not see, and stays, is none of its input."""
    if block.died is None:
        return OTHER
    return TEMPORARY if forward is not None and block.died < forward else INPUT


def _usual_categories(blocks: Mapping[int, _Block], groups: Mapping[int, Group]) -> dict[int, str]:
    """What a stack's blocks of this step were for, most of them: so were those of the last one."""
    seen: dict[int, Counter[str]] = {}
    for at, group in groups.items():
        seen.setdefault(group.stack, Counter())[group.category] += blocks[at].bytes
    return {stack: counts.most_common(1)[0][0] for stack, counts in seen.items() if stack}


def _old_category(key: tuple[int, int], usual: Mapping[int, str]) -> str:
    stack, label = key
    if UNKNOWN < label < WORKSPACE:
        return CATEGORIES[label - 1]
    found = usual.get(stack, OTHER) if label == UNKNOWN else OTHER
    return OTHER if found == TEMPORARY else found
