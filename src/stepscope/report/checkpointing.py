"""Checkpointing as text: which layers are least worth it, and what a plan would give."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from stepscope.model.checkpoint_details import CheckpointedLayer, Checkpointing
from stepscope.model.checkpoint_plan import PlanReport
from stepscope.report.checkpoint_panel import plan_rows
from stepscope.report.glyphs import Glyphs
from stepscope.report.units import bytes_text, duration, percent
from stepscope.report.visible import make_visible, shorten

__all__ = ["checkpointing_parts"]

_LAYERS = 8


def checkpointing_parts(found: Checkpointing, glyphs: Glyphs) -> Iterator[RenderableType]:
    if found.layers:
        yield _layers(found.layers, glyphs)
    if found.plan is not None:
        yield Text()
        yield _plan(found.plan, glyphs)


def _layers(layers: tuple[CheckpointedLayer, ...], glyphs: Glyphs) -> Table:
    """Those that are least worth it first."""
    table = _table(glyphs, "checkpointed layer", "line", "recompute", "saves", "saves/ms")
    for layer in layers[:_LAYERS]:
        at = layer.location
        file = (at.file or "").rpartition("/")[2]
        worth = layer.bytes_per_ms
        _add(
            table,
            glyphs,
            shorten(layer.layer, 40),
            shorten(f"{file}:{at.line}", 30) if file else "",
            f"{duration(layer.recompute_ms)}",
            "not measured" if layer.saved_bytes is None else bytes_text(layer.saved_bytes),
            "" if worth is None else bytes_text(worth),
        )
    if len(layers) > _LAYERS:
        _add(table, glyphs, f"… and {len(layers) - _LAYERS:,} more, which save more for their time")
    return table


def _plan(report: PlanReport, glyphs: Glyphs) -> Table:
    table = _table(glyphs, "checkpoint plan", "", "peak", "of it all", "step", "as long")
    for row in plan_rows(report):
        _add(
            table,
            glyphs,
            row.name,
            row.how,
            bytes_text(row.outcome.peak_bytes),
            "" if row.peak_ratio is None else percent(row.peak_ratio),
            duration(row.outcome.step_ms),
            row.step_ratio,
        )
    return table


def _table(glyphs: Glyphs, *titles: str) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for place, title in enumerate(titles):
        justify = "left" if place < 2 else "right"
        table.add_column(glyphs.text(title), justify=justify, header_style="dim", no_wrap=True)  # type: ignore[arg-type]
    return table


def _add(table: Table, glyphs: Glyphs, *cells: str) -> None:
    table.add_row(*(Text(glyphs.text(make_visible(cell))) for cell in cells))
