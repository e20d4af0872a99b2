"""Where the marks of a chart go. Places are in parts of its width and height, from the top left."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from stepscope.model.timeline import ResourcePoint, StepBucket, Timeline

__all__ = [
    "WIDTH",
    "Area",
    "Chart",
    "Line",
    "Tick",
    "line_chart",
    "numbered_chart",
    "point_path",
    "range_ticks",
    "stacked_chart",
    "step_chart",
    "time_ticks",
]

WIDTH = HEIGHT = 1000  # of the drawing, stretched to the size of the page
_TALLEST = 0.98  # so many of the steps fit: a first step of a minute must not flatten the others
_ROOM = 1.15  # above them
_CLOCK_STEPS = (60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400, 28800, 86400)  # seconds

_Floats: TypeAlias = Sequence[float]


class Tick(NamedTuple):
    at: float  # 0 to 1
    label: str


class Area(NamedTuple):
    name: str
    path: str


class Line(NamedTuple):
    """A line of a chart: its name, its colour's number, and where its values are from."""

    name: str
    colour: int
    value: Callable[[ResourcePoint], float | None]


class Chart(NamedTuple):
    areas: tuple[Area, ...]
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    limit: float | None = None  # where a line across is drawn
    cut: tuple[float, ...] = ()  # where along the width something is higher than the chart


def step_chart(timeline: Timeline) -> Chart:
    """Time goes right, and up goes how long a step took, phase upon phase."""
    end_ms = timeline.wall_ms or 1.0
    heights = [tuple(ms / max(1, one.steps) for ms in one.ms) for one in timeline.buckets]
    totals = [sum(height) for height in heights]
    top = _top(totals)
    edges = [*(one.start_ms / end_ms for one in timeline.buckets), 1.0]
    areas, below = [], [0.0] * len(heights)
    for place, phase in enumerate(timeline.phases):
        above = [low + height[place] for low, height in zip(below, heights, strict=True)]
        areas.append(Area(phase, _stairs(edges, below, above, top)))
        below = above
    cut = tuple((edges[at] + edges[at + 1]) / 2 for at, each in enumerate(totals) if each > top)
    return Chart(tuple(areas), time_ticks(end_ms), _ticks(top, "ms"), cut=cut)


def line_chart(timeline: Timeline, lines: Iterable[Line], unit: str, limit: float | None) -> Chart:
    """`limit`: what there is of it at most, drawn where it is near."""
    points, end_ms = timeline.points, timeline.wall_ms or 1.0
    drawn = [line for line in lines if any(map(line.value, points))]
    largest = max((line.value(p) or 0.0 for line in drawn for p in points), default=0.0)
    near = limit is not None and limit <= 3 * largest
    top = max(largest, (limit or 0.0) if near else 0.0, 1e-9) * 1.08
    across = [point.at_ms / end_ms for point in points]
    areas = [
        Area(line.name, _polyline(across, [line.value(point) for point in points], top))
        for line in drawn
    ]
    at = 1 - limit / top if near and limit is not None else None
    return Chart(tuple(areas), time_ticks(end_ms), _ticks(top, unit), limit=at)


def stacked_chart(across: _Floats, heights: Sequence[_Floats], names: Sequence[str]) -> Chart:
    """Bytes upon bytes. Each height holds from its place to the next one; names that never have any
    are left out. `across`: parts of the width. Without a clock."""
    top = _bytes_top(sum(height) for height in heights)
    edges = [*across, 1.0]
    areas, below = [], [0.0] * len(heights)
    for place, name in enumerate(names):
        if any(height[place] for height in heights):
            above = [low + height[place] for low, height in zip(below, heights, strict=True)]
            areas.append(Area(name, _stairs(edges, below, above, top)))
            below = above
    return Chart(tuple(areas), (), _ticks(top, "B"))


def numbered_chart(numbers: Sequence[int], lines: Mapping[str, _Floats]) -> Chart:
    """Bytes along numbers of steps, a line each."""
    first, last = numbers[0], numbers[-1]
    whole = max(1, last - first)
    top = _bytes_top(value for values in lines.values() for value in values)
    across = [(number - first) / whole for number in numbers]
    areas = [Area(name, _polyline(across, values, top)) for name, values in lines.items()]
    step = max(1, round(_round_step(whole / 5)))
    begin = -(-first // step) * step
    marks = (Tick((at - first) / whole, f"step {at:,}") for at in range(begin, last + 1, step))
    fitting = tuple(mark for mark in marks if mark.at < 0.94)  # one further right would be cut
    return Chart(tuple(areas), fitting, _ticks(top, "B"))


def _bytes_top(values: Iterable[float]) -> float:
    return max(max(values, default=0.0), 1.0) * 1.08


def _top(totals: Sequence[float]) -> float:
    if not totals:
        return 1.0
    fitting = sorted(totals)[min(len(totals) - 1, int(_TALLEST * len(totals)))]
    largest = max(totals)
    return (largest if largest <= 2 * fitting else fitting * _ROOM) or 1.0


def _stairs(edges: _Floats, below: _Floats, above: _Floats, top: float) -> str:
    """The outline of what lies between two staircases."""
    there = [point for at in range(len(above)) for point in _tread(edges, above, at, top)]
    back = [point for at in range(len(below)) for point in _tread(edges, below, at, top)]
    return "M" + "L".join((*there, *reversed(back))) + "Z" if there else ""


def _tread(edges: _Floats, heights: _Floats, at: int, top: float) -> list[str]:
    y = _across(1 - min(1.0, heights[at] / top))
    return [f"{_across(edges[at])} {y}", f"{_across(edges[at + 1])} {y}"]


def _polyline(across: _Floats, values: Sequence[float | None], top: float) -> str:
    path, pen = [], "M"
    for x, value in zip(across, values, strict=True):
        if value is None:
            pen = "M"
            continue
        path.append(f"{pen}{_across(x)} {_across(1 - value / top)}")
        pen = "L"
    return "".join(path)


def _across(part: float) -> str:
    return f"{min(1.0, max(0.0, part)) * WIDTH:.4g}"


def time_ticks(end_ms: float) -> tuple[Tick, ...]:
    """Round times from 0 to the end."""
    end_s = max(end_ms / 1000, sys.float_info.min)  # not so short that dividing by it fails
    step = _clock_step(end_s / 5)
    seconds = [number * step for number in range(int(end_s / step) + 1)]
    if seconds and end_s - seconds[-1] < step / 4:
        seconds = seconds[:-1] or seconds
    return tuple(Tick(second / end_s, _clock(second, step)) for second in seconds)


def _clock(seconds: float, step: float) -> str:
    if step >= 60:
        minutes, rest = divmod(round(seconds), 60)
        return f"{minutes // 60}:{minutes % 60:02d}:{rest:02d}"
    places = max(0, -math.floor(math.log10(step)))
    return f"{seconds:.{places}f} s"


def _ticks(top: float, unit: str) -> tuple[Tick, ...]:
    """A few round numbers from the bottom up, without 0."""
    scale, name = _scaled(top, unit)
    step = _round_step(top / scale / 5)
    places = max(0, -math.floor(math.log10(step)))
    count = int(top / scale / step)
    return tuple(
        Tick(1 - number * step * scale / top, f"{number * step:,.{places}f} {name}".strip())
        for number in range(1, count + 1)
        if number * step * scale / top < 0.92
    )


def _scaled(top: float, unit: str) -> tuple[float, str]:
    if unit == "B":
        for name, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
            if top >= size:
                return size, name
    if unit == "ms" and top >= 5000:
        return 1000.0, "s"
    return 1.0, unit


def range_ticks(low: float, high: float, unit: str) -> list[Tick]:
    """A few round numbers between two, from the lower one on."""
    scale, name = _scaled(high, unit)
    step = _round_step((high - low) / scale / 7)
    places = max(0, -math.floor(math.log10(step)))
    numbers = range(math.ceil(low / scale / step), math.floor(high / scale / step) + 1)
    ticks = ((number * step, (number * step * scale - low) / (high - low)) for number in numbers)
    return [
        Tick(at, f"{value:,.{places}f} {name}".strip()) for value, at in ticks if 0.04 < at < 0.94
    ]


def point_path(points: Iterable[tuple[float, float]]) -> str:
    """A line from place to place."""
    drawn = [f"{_across(left)} {_across(top)}" for left, top in points]
    return "M" + "L".join(drawn) if drawn else ""


def _clock_step(least_s: float) -> float:
    """Full minutes and hours where it is longer than half of one."""
    for step in _CLOCK_STEPS:
        if 30 < least_s <= step:
            return float(step)
    return _round_step(least_s)


def _round_step(least: float) -> float:
    """The next of 1, 2, 5, 10, 20, …"""
    power = 10.0 ** math.floor(math.log10(max(least, 1e-9)))
    return next(step * power for step in (1, 2, 5, 10) if step * power >= least * 0.999)


def bucket_label(bucket: StepBucket) -> str:
    if not bucket.steps:
        return "after the last step"
    first, last = bucket.first_step + 1, bucket.first_step + bucket.steps
    return f"step {first:,}" if first == last else f"steps {first:,} to {last:,}"
