"""A checkpoint plan as text: what it comes to first, then what it costs where."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from stepscope.model.checkpoint_plan import BlockCost, Outcome, PlanReport
from stepscope.report.glyphs import Glyphs, glyphs_for
from stepscope.report.plan_words import blocks_by_worth, outcomes, plan_verdict, size
from stepscope.report.units import duration
from stepscope.report.visible import make_visible

__all__ = ["render_plan"]

_BLOCKS = 24
_BAR = 30


def render_plan(report: PlanReport, name: str, console: Console) -> None:
    view = _View(report, name, glyphs_for(console.encoding))
    for part in view.parts():
        console.print(part, highlight=False)


class _View:
    def __init__(self, report: PlanReport, name: str, glyphs: Glyphs) -> None:
        self._report, self._name, self._glyphs = report, name, glyphs

    def parts(self) -> Iterator[RenderableType]:
        report = self._report
        yield self._text(f"stepscope · {self._name} · checkpoint plan", "dim")
        yield Text()
        for sentence in plan_verdict(report):
            yield self._text(sentence, "bold yellow")
        yield Text()
        yield self._outcomes()
        if report.plan.segments:
            yield Text()
            yield self._blocks()
        if len(report.curve) > 1:
            yield Text()
            yield self._curve()
        if report.notes:
            yield Text()
            for note in report.notes:
                yield Padding(self._text(f"note: {note}", "yellow"), (0, 0, 0, 2))
        yield Text()

    def _text(self, text: str, style: str = "") -> Text:
        return Text(self._glyphs.text(make_visible(text)), style)

    def _row(self, table: Table, cells: Iterable[str], style: str = "") -> None:
        table.add_row(*(self._text(cell, style) for cell in cells))

    def _outcomes(self) -> Table:
        table = _table(("", "peak", "a step", "times as long", "measured on"))
        for title, one in outcomes(self._report):
            self._row(table, (title, size(one.peak_bytes), _ms(one), self._ratio(one), _steps(one)))
        return table

    def _ratio(self, one: Outcome) -> str:
        base = self._report.baseline
        if not base.step_ms or one is base:
            return ""
        ratio = f"{one.step_ms / base.step_ms:.3f}"
        if one.ratio_low is None or one.ratio_high is None:
            return ratio
        return f"{ratio} ({one.ratio_low:.3f} to {one.ratio_high:.3f})"

    def _blocks(self) -> Table:
        table = _table(("segment", "recomputes", "saves", "costs", "a ms saves", ""))
        found = blocks_by_worth(self._report)
        for one in found[:_BLOCKS]:
            style = "" if one.is_planned else "dim"
            self._row(table, (*_cells(one), "in the plan" if one.is_planned else ""), style)
        if len(found) > _BLOCKS:
            self._row(table, (f"… and {len(found) - _BLOCKS:,} more",), "dim")
        return table

    def _curve(self) -> Table:
        table = _table(("peak", "a step", "segments", "what it would cost", ""))
        curve, chosen = self._report.curve, self._report.predicted
        first = curve[0].step_ms
        widest = max((point.step_ms - first for point in curve), default=0.0)
        nearest = min(curve, key=lambda one: abs(one.peak_bytes - chosen.peak_bytes))
        for point in curve:
            bar = self._glyphs.bar((point.step_ms - first) / widest if widest else 0.0, _BAR)
            mark = "about the plan" if point is nearest else ""
            cells = (size(point.peak_bytes), duration(point.step_ms), f"{point.segments:,}")
            self._row(table, (*cells, bar, mark))
        return table


def _cells(one: BlockCost) -> tuple[str, ...]:
    worth = one.bytes_per_ms
    return (
        one.segment.label,
        one.segment.recompute,
        size(one.saved_bytes),
        duration(one.recompute_ms),
        "–" if worth is None else size(round(worth)),
    )


def _ms(one: Outcome) -> str:
    return duration(one.step_ms) if one.step_ms else "–"


def _steps(one: Outcome) -> str:
    return f"{one.steps:,} steps" if one.steps else "predicted"


def _table(titles: tuple[str, ...]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    left = ("", "segment", "recomputes", "what it would cost", "measured on")
    for title in titles:
        side = "left" if title in left else "right"
        table.add_column(title, justify=side, header_style="dim", no_wrap=True)  # type: ignore[arg-type]
    return table
