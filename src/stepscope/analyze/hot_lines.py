"""Time by stack → the lines of the user's own files, and a flame tree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from stepscope.analyze.stack_tree import StackTree
from stepscope.analyze.user_code import named_function
from stepscope.model.details import FlameNode, HotLine
from stepscope.model.finding import Location

__all__ = ["Spent", "flame_of", "lines_of"]

Spent: TypeAlias = Mapping[tuple[int, bool], Sequence[int]]  # (stack, in C) → (ns, samples)

LINES = 50
FLAME_SHARE = 0.005  # a smaller node is left out
FLAME_DEPTH = 60
FLAME_NODES = 500


class _Line:
    def __init__(self) -> None:
        self.ns = self.self_ns = self.native_ns = self.samples = 0


def lines_of(spent: Spent, tree: StackTree) -> tuple[HotLine, ...]:
    """The user's lines, the dearest first; last, with the file "", what no line of theirs called.

    A stack counts for one line: that of the innermost frame that is the user's.
    """
    total_ns = sum(ns for ns, _ in spent.values())
    lines: dict[tuple[str, int, str], _Line] = {}
    for (stack, native), (ns, samples) in spent.items():
        users = tree.users(stack)
        frame = tree.frame(users)
        function = named_function(frame.function)
        line = lines.setdefault((frame.file, frame.line, function), _Line())
        line.ns += ns
        line.samples += samples
        line.self_ns += ns if users == stack else 0
        line.native_ns += ns if native else 0
    ordered = sorted(lines.items(), key=lambda item: (not item[0][0], -item[1].ns, item[0]))
    users_own = [item for item in ordered if item[0][0]][:LINES]
    others = [item for item in ordered if not item[0][0]]
    return tuple(_hot(*key, line, total_ns) for key, line in [*users_own, *others])


def _hot(file: str, line: int, function: str, times: _Line, total_ns: int) -> HotLine:
    return HotLine(
        location=Location(file, line, function) if file else Location(file=""),
        share=times.ns / total_ns if total_ns else 0.0,
        self_share=times.self_ns / total_ns if total_ns else 0.0,
        native_share=times.native_ns / times.ns if times.ns else None,
        samples=times.samples,
    )


class _Node:
    """A function where it was called; `lines`: ns by line, to show the dearest."""

    def __init__(self, function: str, file: str) -> None:
        self.function, self.file = function, file
        self.ns = 0
        self.lines: dict[int, int] = {}
        self.children: dict[tuple[str, str], _Node] = {}


def flame_of(name: str, spent: Spent, tree: StackTree) -> FlameNode | None:
    """Functions by who called them, from the outermost on; None: nothing was seen."""
    root = _Node(name, "")
    for (stack, _), (ns, _samples) in spent.items():
        root.ns += ns
        at = root
        for frame in reversed(list(tree.chain(stack))[-FLAME_DEPTH:]):
            key = (frame.function, frame.file)
            at = at.children.setdefault(key, _Node(*key))
            at.ns += ns
            at.lines[frame.line] = at.lines.get(frame.line, 0) + ns
    return _pruned(root, _least_ns(root)) if root.ns else None


def _least_ns(root: _Node) -> float:
    """What a node must have to be shown, so that no more are than FLAME_NODES."""
    found, waiting = [], [root]
    while waiting:
        node = waiting.pop()
        found.append(node.ns)
        waiting += [one for one in node.children.values() if one.ns >= FLAME_SHARE * root.ns]
    found.sort(reverse=True)
    at_least = FLAME_SHARE * root.ns
    return found[FLAME_NODES] + 1 if len(found) > FLAME_NODES else at_least


def _pruned(node: _Node, least_ns: float) -> FlameNode:
    kept = [one for one in node.children.values() if one.ns >= least_ns]
    kept.sort(key=lambda one: (-one.ns, one.function, one.file))
    return FlameNode(
        name=node.function,
        file=node.file,
        line=max(node.lines, key=node.lines.__getitem__, default=0),
        ms=node.ns / 1e6,
        children=tuple(_pruned(one, least_ns) for one in kept),
    )
