"""A checkpoint plan as text: what it comes to first, then what it costs where."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from stepscope.model.checkpoint_plan import Outcome, PlanPoint, PlanReport
from stepscope.report.checkpoint_panel import plan_rows
from stepscope.report.glyphs import Glyphs, glyphs_for
from stepscope.report.plan_words import blocks_by_worth, plan_verdict, size
from stepscope.report.shorten import shorten
from stepscope.report.units import duration, percent

__all__ = ["add_row", "outcomes_table", "plan_table", "render_plan"]

_BLOCKS = 24
_BAR = 30


def render_plan(report: PlanReport, name: str, console: Console) -> None:
    glyphs = glyphs_for(console.encoding)
    for part in _parts(report, name, glyphs):
        console.print(part)


def _parts(report: PlanReport, name: str, glyphs: Glyphs) -> Iterator[RenderableType]:
    yield _text(glyphs, f"stepscope · {name} · checkpoint plan", "dim")
    yield Text()
    for sentence in plan_verdict(report):
        yield _text(glyphs, sentence, "bold yellow")
    yield Text()
    yield outcomes_table(report, glyphs)
    if report.plan.segments:
        yield Text()
        yield _blocks(report, glyphs)
    if len(report.curve) > 1:
        yield Text()
        yield _curve(report, glyphs)
    for note in report.notes:
        yield Text()
        yield Padding(_text(glyphs, f"note: {note}", "yellow"), (0, 0, 0, 2))
    yield Text()


def outcomes_table(report: PlanReport, glyphs: Glyphs) -> Table:
    """Before and after, predicted and measured."""
    table = plan_table(glyphs, "checkpoint plan", "", "peak", "of it all", "step", "as long")
    for row in plan_rows(report):
        ms = row.outcome.step_ms
        add_row(
            table,
            glyphs,
            row.name,
            row.how,
            size(row.outcome.peak_bytes),
            "" if row.peak_ratio is None else percent(row.peak_ratio),
            duration(ms) if ms else "",
            row.step_ratio,
        )
    return table


def _blocks(report: PlanReport, glyphs: Glyphs) -> Table:
    """Those in the plan first, then by what a millisecond saves."""
    table = plan_table(glyphs, "segment", "recomputes", "saves", "costs", "saves/ms", "")
    found = blocks_by_worth(report)
    for one in found[:_BLOCKS]:
        worth = one.bytes_per_ms
        cells = (
            shorten(one.segment.label, 40),
            one.segment.recompute,
            size(one.saved_bytes),
            duration(one.recompute_ms),
            "" if worth is None else size(round(worth)),
            "in the plan" if one.is_planned else "",
        )
        add_row(table, glyphs, *cells, style="" if one.is_planned else "dim")
    if len(found) > _BLOCKS:
        add_row(table, glyphs, f"… and {len(found) - _BLOCKS:,} more", style="dim")
    return table


def _curve(report: PlanReport, glyphs: Glyphs) -> Table:
    table = plan_table(glyphs, "what it would cost", "", "peak", "step", "segments")
    first_ms = report.curve[0].step_ms
    most_ms = max(point.step_ms - first_ms for point in report.curve)
    marks = {_nearest(report, report.predicted): "about the plan"}
    if report.present is not None:
        marks[_nearest(report, report.present)] = "about as the program stands"
    for point in report.curve:
        bar = glyphs.bar((point.step_ms - first_ms) / most_ms if most_ms else 0.0, _BAR)
        cells = (size(point.peak_bytes), duration(point.step_ms), f"{point.segments:,}")
        add_row(table, glyphs, bar, marks.get(point, ""), *cells)
    return table


def _nearest(report: PlanReport, outcome: Outcome) -> PlanPoint:
    return min(report.curve, key=lambda one: abs(one.peak_bytes - outcome.peak_bytes))


def plan_table(glyphs: Glyphs, *titles: str) -> Table:
    """The first two columns are words, the others figures."""
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for place, title in enumerate(titles):
        justify = "left" if place < 2 else "right"
        table.add_column(glyphs.text(title), justify=justify, header_style="dim", no_wrap=True)  # type: ignore[arg-type]
    return table


def add_row(table: Table, glyphs: Glyphs, *cells: str, style: str = "") -> None:
    table.add_row(*(_text(glyphs, cell, style) for cell in cells))


def _text(glyphs: Glyphs, text: str, style: str = "") -> Text:
    return Text(glyphs.text(text), style)
