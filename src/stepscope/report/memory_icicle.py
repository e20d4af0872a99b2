"""A peak as an icicle: category above, then layer where it is known, then line."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from stepscope.model.details import FlameNode
from stepscope.model.memory import CATEGORIES, Peak, PeakPart
from stepscope.report.flames import Frame, lay_out
from stepscope.report.memory_words import by_category
from stepscope.report.shorten import shorten
from stepscope.report.units import bytes_text, percent

__all__ = ["Icicle", "Piece", "category_class", "peak_icicle"]


class Piece(NamedTuple):
    """A frame: its place, its colour, and what it says."""

    frame: Frame
    category_class: str
    title: str


class Icicle(NamedTuple):
    pieces: tuple[Piece, ...]
    levels: int
    left_out: int  # pieces too small to draw


def peak_icicle(peak: Peak) -> Icicle:
    """It has the geometry of a flame, with bytes in place of time."""
    children = tuple(
        _category(one.category, [part for part in peak.parts if part.category == one.category])
        for one in by_category(peak)
    )
    flame = lay_out(FlameNode("peak", "", 0, sum(child.ms for child in children), children))
    categories: list[str] = []  # of each frame, the one that it lies below
    pieces = []
    for frame in flame.frames:
        category = categories[frame.parent] if frame.level > 1 else frame.node.name
        categories.append(category)
        colour = category_class(category) if frame.level else "whole"
        pieces.append(Piece(frame, colour, _title(frame)))
    return Icicle(tuple(pieces), flame.levels, flame.left_out)


def category_class(category: str) -> str:
    """The class of the page's style that colours it."""
    known = category if category in CATEGORIES else CATEGORIES[-1]
    return f"m-{known.replace(' ', '-')}"


def _category(name: str, parts: Sequence[PeakPart]) -> FlameNode:
    layers: dict[str, list[PeakPart]] = defaultdict(list)
    for part in parts:
        layers[part.location.layer or ""].append(part)
    without = _lines(layers.pop("", []))
    inside = [_node(layer, ones, _lines(ones)) for layer, ones in layers.items()]
    return _node(name, parts, [*without, *inside])


def _lines(parts: Sequence[PeakPart]) -> list[FlameNode]:
    """Parts without a line are the rest of the width."""
    lines: dict[tuple[str, int, str], list[PeakPart]] = defaultdict(list)
    for part in parts:
        place = part.location
        if place.file:
            lines[place.file, place.line or 0, place.function or ""].append(part)
    return [_line(*key, sum(part.bytes for part in ones)) for key, ones in lines.items()]


def _line(file: str, line: int, function: str, size: int) -> FlameNode:
    name = f"{file.rpartition('/')[2]}:{line}"
    return FlameNode(f"{name} in {function}" if function else name, file, line, size)


def _node(name: str, parts: Sequence[PeakPart], children: Sequence[FlameNode]) -> FlameNode:
    largest_first = tuple(sorted(children, key=lambda child: -child.ms))
    return FlameNode(name, "", 0, sum(part.bytes for part in parts), largest_first)


def _title(frame: Frame) -> str:
    where = f" · {shorten(frame.node.file)}:{frame.node.line}" if frame.node.file else ""
    size = bytes_text(frame.node.ms)
    return f"{shorten(frame.node.name)}{where} · {size} · {percent(frame.width)} of the peak"
