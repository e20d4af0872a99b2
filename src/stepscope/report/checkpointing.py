"""Checkpointing as text: which layers are least worth it, and what a plan would give."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from stepscope.model.checkpoint_details import CheckpointedLayer, Checkpointing
from stepscope.report.glyphs import Glyphs
from stepscope.report.plan import add_row, outcomes_table, plan_table
from stepscope.report.shorten import shorten
from stepscope.report.units import bytes_text, duration

__all__ = ["checkpointing_parts"]

_LAYERS = 8


def checkpointing_parts(found: Checkpointing, glyphs: Glyphs) -> Iterator[RenderableType]:
    if found.layers:
        yield _layers(found.layers, glyphs)
    if found.plan is not None:
        yield Text()
        yield outcomes_table(found.plan, glyphs)


def _layers(layers: tuple[CheckpointedLayer, ...], glyphs: Glyphs) -> Table:
    """Those that are least worth it first."""
    table = plan_table(glyphs, "checkpointed layer", "line", "recompute", "saves", "saves/ms")
    for layer in layers[:_LAYERS]:
        at = layer.location
        file = (at.file or "").rpartition("/")[2]
        worth = layer.bytes_per_ms
        add_row(
            table,
            glyphs,
            shorten(layer.layer, 40),
            shorten(f"{file}:{at.line}", 30) if file else "",
            f"{duration(layer.recompute_ms)}",
            "not measured" if layer.saved_bytes is None else bytes_text(layer.saved_bytes),
            "" if worth is None else bytes_text(worth),
        )
    if len(layers) > _LAYERS:
        add_row(
            table, glyphs, f"… and {len(layers) - _LAYERS:,} more, which save more for their time"
        )
    return table
