"""The memory section of a page: what is drawn, and where."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from stepscope.model.memory import (
    CATEGORIES,
    DeviceMemory,
    Growing,
    LineBytes,
    Memory,
    MemoryPoint,
    PeakPart,
)
from stepscope.report import memory_words
from stepscope.report.charts import Chart, Tick, numbered_chart, stacked_chart, time_ticks
from stepscope.report.memory_icicle import Icicle, peak_icicle
from stepscope.report.shorten import shorten
from stepscope.report.units import bytes_text, steps_text

__all__ = ["DevicePanel", "MemoryPanel", "memory_panel"]

_DRAWN = 500  # points: about as many as there are pixels for
_DETAILED = 0.2  # of the points of the step that has most: steps with fewer are not drawn
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
    """`title`: which steps are drawn. `peak_at`: where along the width the highest point is;
    `peak_text`: what stands there."""

    title: str
    chart: Chart
    moments: tuple[Moment, ...]
    peak_at: float
    peak_text: str
    label: str  # the same in words


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


def memory_panel(memory: Memory) -> MemoryPanel:
    growing = memory.growing[:_SUSPECTS]
    return MemoryPanel(
        memory_words.verdict(memory),
        memory_words.where_measured(memory),
        [_device(device) for device in memory.devices],
        [(one, memory_words.growth_figures(one)) for one in growing],
        len(memory.growing) - len(growing),
        memory.python_lines[:_PYTHON_LINES],
        memory_words.facts(memory),
        memory.notes,
    )


def _device(device: DeviceMemory) -> DevicePanel:
    lines = memory_words.by_line(device.peak)
    return DevicePanel(
        device.device,
        memory_words.peak_title(device),
        _picture(device) if len(device.points) > 1 else None,
        _steps(device),
        memory_words.by_category(device.peak),
        lines[:_LINES],
        max(0, len(lines) - _LINES),
        peak_icicle(device.peak) if device.peak.parts else None,
    )


def _picture(device: DeviceMemory) -> Picture:
    points = _highest(_detailed(device.points))
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
    drawn = chart._replace(x_ticks=ticks)
    return Picture(_steps_drawn(points), drawn, moments, across[top], text, label)


def _steps_drawn(points: Sequence[MemoryPoint]) -> str:
    steps = sorted({point.step for point in points})
    if steps[-1] < 0:
        return "over time"
    if len(steps) == 1:
        return f"within step {steps[0]:,}"
    return f"within {steps_text(len(steps))} between {steps[0]:,} and {steps[-1]:,}"


def _detailed(points: Sequence[MemoryPoint]) -> Sequence[MemoryPoint]:
    """Without steps of which only a few points were kept: nothing is known of the time between."""
    counts = Counter(point.step for point in points)
    least = _DETAILED * max(counts.values())
    return [point for point in points if counts[point.step] >= least]


def _highest(points: Sequence[MemoryPoint]) -> Sequence[MemoryPoint]:
    """Of each stretch the highest: never more than can be drawn."""
    if len(points) <= _DRAWN:
        return points
    edges = [at * len(points) // _DRAWN for at in range(_DRAWN + 1)]
    stretches = (points[edges[at] : edges[at + 1]] for at in range(_DRAWN))
    return [max(stretch, key=lambda point: point.total) for stretch in stretches]


def _places(points: Sequence[MemoryPoint]) -> tuple[list[float], tuple[Tick, ...]]:
    """By the clock. Of many steps only some were looked at: these stand side by side, without the
    time between them."""
    if len({point.step for point in points}) == 1:
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
