"""A notebook cell's result as HTML with a small chart, and as text.

Text takes the colour of the page it stands on, and the fills are of middle brightness: it reads on
light and on dark themes. No script, nothing from the network.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from stepscope.model.cell import Cell
from stepscope.model.summary import PhaseShare
from stepscope.printer import make_visible
from stepscope.report.figures import (
    advice,
    figures,
    heading,
    memory_text,
    seconds_text,
    speedup,
)
from stepscope.report.glyphs import UNICODE
from stepscope.units import percent

__all__ = ["as_html", "as_text"]

_FILLS = {
    "input wait": "#d99a1c",
    "transfer": "#b565c9",
    "forward": "#3f9c5a",
    "backward": "#2f7f8f",
    "optimizer": "#6aa84f",
    "evaluation": "#4a90c2",
    "checkpoint save": "#7a86d1",
    "gc": "#d0605e",
    "python between": "#c77b58",
    "computing": "#3f9c5a",
    "waiting": "#8a8f98",
}
_OTHER_FILL = "#8a8f98"
_LINE = "#4a90c2"
_WIDTH, _BAR_HEIGHT, _CHART_HEIGHT = 560, 14, 64  # pixels
_LABEL = 13  # pixels above and below the line, for its labels
_LEAST_RISE = 0.05  # of the peak: less than that is drawn as what it is, next to nothing
_TEXT_BAR, _TEXT_NAME = 30, 16  # characters


def as_html(cell: Cell) -> str:
    """One `div`; everything that may come from the user's code is escaped."""
    parts = [
        f'<div style="opacity:.65">{escape(heading(cell))}</div>',
        f'<div style="font-weight:600;margin:2px 0 6px">{escape(cell.verdict)}</div>',
        _bar(cell.parts),
        _legend(cell.parts),
        _memory(cell),
        _figures(cell),
        _advice(cell),
    ]
    style = f"font-family:sans-serif;font-size:13px;line-height:1.5;max-width:{_WIDTH}px"
    return make_visible(f'<div class="stepscope" style="{style}">{"".join(parts)}</div>')


def _bar(parts: Sequence[PhaseShare]) -> str:
    """Where the time went, side by side."""
    if not parts:
        return ""
    shapes, left = [], 0.0
    for part in parts:
        width = part.share * _WIDTH
        title = f"<title>{escape(part.phase)} {percent(part.share)}</title>"
        shapes.append(
            f'<rect x="{left:.1f}" width="{width:.1f}" height="{_BAR_HEIGHT}"'
            f' fill="{_fill(part)}">{title}</rect>'
        )
        left += width
    said = ", ".join(f"{part.phase} {percent(part.share)}" for part in parts)
    return _svg(_BAR_HEIGHT, said, "".join(shapes))


def _legend(parts: Sequence[PhaseShare]) -> str:
    entries = [
        f'<span style="white-space:nowrap;margin-right:14px">'
        f'<span style="display:inline-block;width:9px;height:9px;background:{_fill(part)}"></span>'
        f" {escape(part.phase)} {percent(part.share)}</span>"
        for part in parts
    ]
    return f'<div style="margin:2px 0 6px">{" ".join(entries)}</div>' if entries else ""


def _fill(part: PhaseShare) -> str:
    return _FILLS.get(part.phase, _OTHER_FILL)


def _memory(cell: Cell) -> str:
    """Memory over time, with its peak: a short one may lie above every sample."""
    peak = cell.metrics.peak_ram_mb
    if len(cell.memory) < 2 or peak is None:
        return ""
    low = min(peak * (1 - _LEAST_RISE), *(mb for _, mb in cell.memory))
    first_s, last_s = cell.memory[0][0], cell.memory[-1][0]
    along, rise = max(last_s - first_s, 1e-9), max(peak - low, 1e-9)
    height = _CHART_HEIGHT - 2 * _LABEL
    points = " ".join(
        f"{(time_s - first_s) / along * _WIDTH:.1f},{_LABEL + (peak - mb) / rise * height:.1f}"
        for time_s, mb in cell.memory
    )
    text = 'font-size="11" fill="currentColor" fill-opacity=".75"'
    drawn = (
        f'<line x1="0" x2="{_WIDTH}" y1="{_LABEL}" y2="{_LABEL}" stroke="currentColor"'
        ' stroke-opacity=".35" stroke-dasharray="3 3"/>'
        f'<polyline points="{points}" fill="none" stroke="{_LINE}" stroke-width="1.5"/>'
        f'<text x="0" y="{_LABEL - 3}" {text}>peak {memory_text(peak)}</text>'
        f'<text x="0" y="{_CHART_HEIGHT - 2}" {text}>{memory_text(low)}</text>'
        f'<text x="{_WIDTH}" y="{_CHART_HEIGHT - 2}" text-anchor="end" {text}>memory over'
        f" {seconds_text(along)}</text>"
    )
    return _svg(_CHART_HEIGHT, f"memory over time, peak {memory_text(peak)}", drawn)


def _svg(height: int, said: str, drawn: str) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}"'
        f' viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="{escape(said)}"'
        f' style="display:block;max-width:100%;overflow:visible">{drawn}</svg>'
    )


def _figures(cell: Cell) -> str:
    entries = [
        f'<span style="white-space:nowrap;margin-right:14px"><span style="opacity:.65">'
        f"{escape(what)}</span> {escape(much)}</span>"
        for what, much in figures(cell)
    ]
    return f'<div style="margin-top:6px">{" ".join(entries)}</div>'


def _advice(cell: Cell) -> str:
    given = advice(cell)
    if given is None:
        return ""
    lines = [
        f"→ {escape(given.title)}:",
        f'<pre style="margin:2px 0 2px 14px;white-space:pre-wrap">{escape(given.action)}</pre>',
    ]
    if gain := speedup(given):
        lines.append(f'<div style="margin-left:14px">{gain}</div>')
    if given.risk:
        lines.append(
            f'<div style="margin-left:14px;opacity:.65">Caveat: {escape(given.risk)}</div>'
        )
    return f'<div style="margin-top:6px">{"".join(lines)}</div>'


def as_text(cell: Cell) -> str:
    """The same for a terminal."""
    return make_visible("\n".join(_lines(cell)))


def _lines(cell: Cell) -> Iterator[str]:
    yield heading(cell)
    yield cell.verdict
    for part in cell.parts:
        bar = UNICODE.bar(part.share, _TEXT_BAR)
        yield f"  {part.phase:<{_TEXT_NAME}}{percent(part.share):>7}  {bar}".rstrip()
    if known := [f"{what} {much}" for what, much in figures(cell)]:
        yield " · ".join(known)
    given = advice(cell)
    if given is not None:
        yield f"→ {given.title}:"
        yield from (f"  {line}" for line in given.action.splitlines())
        if gain := speedup(given):
            yield f"  {gain}"
