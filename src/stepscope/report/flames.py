"""A flame tree laid out as an icicle: the caller above, what it calls below it."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from stepscope.model.details import FlameNode

__all__ = ["Flame", "Frame", "lay_out"]

_FRAMES = 500
_LEVELS = 60
_LEAST = 0.0008  # of the width: less than a pixel


class Frame(NamedTuple):
    """`left` and `width` in parts of the whole; `parent`: its place in the list (the root: -1)."""

    node: FlameNode
    left: float
    width: float
    level: int
    parent: int


class Flame(NamedTuple):
    frames: tuple[Frame, ...]
    levels: int
    left_out: int  # frames too small to draw


def lay_out(root: FlameNode) -> Flame:
    """The largest frames first come to be drawn, whatever the size of the tree."""
    frames: list[Frame] = []
    waiting = deque([Frame(root, 0.0, 1.0, 0, -1)])
    left_out = 0
    while waiting:
        frame = waiting.popleft()
        if len(frames) >= _FRAMES or frame.level >= _LEVELS or frame.width < _LEAST:
            left_out += 1
            continue
        place, left = len(frames), frame.left
        frames.append(frame)
        if root.ms <= 0:
            continue
        for child in frame.node.children:
            # A tree that was tampered with may claim more for the children than for their parent.
            room = frame.left + frame.width - left
            width = min(max(0.0, child.ms / root.ms), max(0.0, room))
            waiting.append(Frame(child, left, width, frame.level + 1, place))
            left += width
    levels = 1 + max((frame.level for frame in frames), default=0)
    return Flame(tuple(frames), levels, left_out)
