"""The memory section of a page: what is drawn, and where."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple

from stepscope.model.details import FlameNode
from stepscope.model.memory import (
    CATEGORIES,
    DeviceMemory,
    Growing,
    LineBytes,
    Memory,
    MemoryPoint,
    Peak,
    PeakPart,
)
from stepscope.report import memory_words
from stepscope.report.charts import Chart, Tick, numbered_chart, stacked_chart, time_ticks
from stepscope.report.flames import Frame, lay_out
from stepscope.report.units import bytes_text, percent
from stepscope.report.visible import shorten

__all__ = ["DevicePanel", "MemoryPanel", "category_class", "memory_panel"]

_DRAWN = 500  # points: about as many as there are pixels for
_TICKS = 8
_LAST_TICK = 0.94  # one further right would be cut off
_LINES = 50
_SUSPECTS = 10
_PYTHON_LINES = 20


class Moment(NamedTuple):
    """A stretch of the drawing to point at, and what it says."""

    left: float
    width: float
    title: str


class Picture(NamedTuple):
    """`peak_at`: where along the width the highest point is, `peak_text`: what stands there."""

    chart: Chart
    moments: tuple[Moment, ...]
    peak_at: float
    peak_text: str
    label: str  # the same in words


class Piece(NamedTuple):
    """A frame of the icicle: its place, its colour, and what it says."""

    frame: Frame
    category_class: str
    title: str


class Icicle(NamedTuple):
    pieces: tuple[Piece, ...]
    levels: int
    left_out: int


class DevicePanel(NamedTuple):
    device: str
    title: str
    picture: Picture | None
    steps: Chart | None
    categories: Sequence[memory_words.CategoryShare]
    lines: Sequence[PeakPart]
    lines_left_out: int
    icicle: Icicle | None


class MemoryPanel(NamedTuple):
    verdict: Sequence[str]
    measured: str
    devices: Sequence[DevicePanel]
    growing: Sequence[tuple[Growing, str]]  # with its figures in words
    growing_left_out: int
    python_lines: Sequence[LineBytes]
    facts: Sequence[memory_words.Fact]
    notes: Sequence[str]


def memory_panel(memory: Memory, file_name: Callable[[str], str]) -> MemoryPanel:
    """`file_name`: how the name of a file is shown."""
    growing = memory.growing[:_SUSPECTS]
    return MemoryPanel(
        memory_words.verdict(memory),
        memory_words.where_measured(memory),
        [_device(device, file_name) for device in memory.devices],
        [(one, memory_words.growth_figures(one)) for one in growing],
        len(memory.growing) - len(growing),
        memory.python_lines[:_PYTHON_LINES],
        memory_words.facts(memory),
        memory.notes,
    )


def category_class(category: str) -> str:
    known = category if category in CATEGORIES else CATEGORIES[-1]
    return f"m-{known.replace(' ', '-')}"


def _device(device: DeviceMemory, file_name: Callable[[str], str]) -> DevicePanel:
    lines = memory_words.by_line(device.peak)
    return DevicePanel(
        device.device,
        memory_words.peak_title(device),
        _picture(device) if len(device.points) > 1 else None,
        _steps(device),
        memory_words.by_category(device.peak),
        lines[:_LINES],
        max(0, len(lines) - _LINES),
        _icicle(device.peak, file_name) if device.peak.parts else None,
    )


def _picture(device: DeviceMemory) -> Picture:
    points = _highest(device.points)
    across, ticks = _places(points)
    chart = stacked_chart(across, [point.bytes for point in points], CATEGORIES)
    top = max(range(len(points)), key=lambda at: points[at].total)
    ends = [*across[1:], 1.0]
    moments = tuple(
        Moment(left, max(0.0, right - left), _said(point))
        for left, right, point in zip(across, ends, points, strict=True)
    )
    name = shorten(device.device)
    label = f"Memory of {name} over time by category. It is highest with {_said(points[top])}"
    highest = points[top].total
    # The peak of the run may lie in a step that was not looked at closely.
    kind = "peak" if highest == device.peak.bytes else "highest of what is drawn"
    text = f"{kind} {bytes_text(highest)}"
    return Picture(chart._replace(x_ticks=ticks), moments, across[top], text, label)


def _highest(points: Sequence[MemoryPoint]) -> Sequence[MemoryPoint]:
    """Of each stretch the highest: never more than can be drawn."""
    if len(points) <= _DRAWN:
        return points
    edges = [at * len(points) // _DRAWN for at in range(_DRAWN + 1)]
    stretches = (points[edges[at] : edges[at + 1]] for at in range(_DRAWN))
    return [max(stretch, key=lambda point: point.total) for stretch in stretches]


def _places(points: Sequence[MemoryPoint]) -> tuple[list[float], tuple[Tick, ...]]:
    """By the clock; where steps are known, only some of them were looked at: these stand side by
    side, without the time between them."""
    if all(point.step < 0 for point in points):
        end_ms = max(points[-1].at_ms - points[0].at_ms, 1e-6)
        return [(point.at_ms - points[0].at_ms) / end_ms for point in points], time_ticks(end_ms)
    at_ms, places, begins = 0.0, [0.0], [(points[0].step, 0.0)]
    for before, point in pairwise(points):
        if point.step == before.step or point.step == before.step + 1:
            at_ms += max(0.0, point.at_ms - before.at_ms)
        places.append(at_ms)
        if point.step != before.step:
            begins.append((point.step, at_ms))
    end_ms = max(at_ms, 1e-6)
    ticks: list[Tick] = []
    for step, begin_ms in begins:
        at = begin_ms / end_ms
        if at < _LAST_TICK and (not ticks or at - ticks[-1].at >= 1 / _TICKS):
            ticks.append(Tick(at, f"step {step:,}"))
    return [place / end_ms for place in places], tuple(ticks)


def _said(point: MemoryPoint) -> str:
    step = f"step {point.step:,}, " if point.step >= 0 else ""
    held = sorted(zip(point.bytes, CATEGORIES, strict=True), reverse=True)
    parts = ", ".join(f"{name} {bytes_text(size)}" for size, name in held if size)
    return f"{step}{point.at_ms / 1000:.3f} s: {bytes_text(point.total)} ({parts})"


def _steps(device: DeviceMemory) -> Chart | None:
    steps = device.steps
    if len(steps) < 2 or steps[0][0] >= steps[-1][0]:
        return None
    lines = {
        "the most within a step": [float(most) for _, most, _ in steps],
        "left at its end": [float(end) for _, _, end in steps],
    }
    return numbered_chart([step for step, _, _ in steps], lines)


def _icicle(peak: Peak, file_name: Callable[[str], str]) -> Icicle:
    """Category, then layer where it is known, then line."""
    children = tuple(
        _category(one.category, [p for p in peak.parts if p.category == one.category], file_name)
        for one in memory_words.by_category(peak)
    )
    root = FlameNode("peak", "", 0, sum(child.ms for child in children), children)
    flame = lay_out(root)
    names: list[str] = []
    pieces = []
    for frame in flame.frames:
        above = names[frame.parent] if frame.level > 1 else frame.node.name
        names.append(above)
        colour = category_class(above) if frame.level else "whole"
        pieces.append(Piece(frame, colour, _piece_title(frame)))
    return Icicle(tuple(pieces), flame.levels, flame.left_out)


def _category(name: str, parts: Sequence[PeakPart], file_name: Callable[[str], str]) -> FlameNode:
    layers: dict[str, list[PeakPart]] = defaultdict(list)
    for part in parts:
        layers[part.location.layer or ""].append(part)
    nodes: list[FlameNode] = list(_lines(layers.pop("", []), file_name))
    for layer, inside in layers.items():
        nodes.append(_node(layer, sum(part.bytes for part in inside), _lines(inside, file_name)))
    return _node(name, sum(part.bytes for part in parts), nodes)


def _lines(parts: Sequence[PeakPart], file_name: Callable[[str], str]) -> list[FlameNode]:
    """Parts without a line are the rest of the width."""
    sizes: dict[tuple[str, int, str], int] = defaultdict(int)
    for part in parts:
        place = part.location
        if place.file:
            sizes[place.file, place.line or 0, place.function or ""] += part.bytes
    return [
        FlameNode(f"{function or file_name(file)}:{line}", file, line, size)
        for (file, line, function), size in sizes.items()
    ]


def _node(name: str, size: int, children: Sequence[FlameNode]) -> FlameNode:
    """The icicle has the geometry of a flame, with bytes in place of time."""
    return FlameNode(name, "", 0, size, tuple(sorted(children, key=lambda child: -child.ms)))


def _piece_title(frame: Frame) -> str:
    where = f" · {shorten(frame.node.file)}:{frame.node.line}" if frame.node.file else ""
    size = bytes_text(frame.node.ms)
    return f"{shorten(frame.node.name)}{where} · {size} · {percent(frame.width)} of the peak"
