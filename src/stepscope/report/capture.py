"""A capture as text: its phases as a report shows them, then lines, layers, operators, memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from stepscope.model.capture import Capture, CaptureDetails
from stepscope.model.finding import Location
from stepscope.model.phases import Phase
from stepscope.report.glyphs import Glyphs, glyphs_for
from stepscope.report.text import render
from stepscope.report.units import bytes_text, duration, percent, steps_text

__all__ = ["render_capture"]

_LINES, _LAYERS, _OPS, _MEMORY = 10, 8, 8, 6
_FRAMES = 12


def render_capture(capture: Capture, console: Console) -> None:
    """Print it."""
    view = _View(capture.details, glyphs_for(console.encoding))
    if capture.summary.steps.count:
        render(capture.summary, console)
    for part in view.parts(with_title=not capture.summary.steps.count):
        console.print(part)


class _View:
    def __init__(self, details: CaptureDetails, glyphs: Glyphs) -> None:
        self._details, self._glyphs = details, glyphs

    def parts(self, *, with_title: bool) -> Iterator[RenderableType]:
        details = self._details
        if with_title:
            yield self._text(f"{details.title}.", "bold yellow")
            for note in details.notes:
                yield self._text(note, "dim")
        tables = (self._lines(), self._layers(), self._ops(), self._memory())
        for table in tables:
            if table is not None:
                yield Text()
                yield table
        if with_title and details.stacks:
            yield from self._stack()

    def _text(self, text: str, style: str = "") -> Text:
        return Text(self._glyphs.text(text), style)

    def _table(self, titles: Sequence[str], rows: Sequence[Sequence[str]]) -> Table | None:
        if not rows:
            return None
        table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
        for place, title in enumerate(titles):
            # The last column is a place in the code, which folds where it is long.
            is_last = place == len(titles) - 1
            table.add_column(
                title,
                justify="left" if is_last else "right",
                header_style="dim",
                no_wrap=not is_last,
                overflow="fold",
            )
        for row in rows:
            table.add_row(*(self._text(cell) for cell in row))
        return table

    def _lines(self) -> Table | None:
        """Of all phases together, the dearest first."""
        found = [
            (line.share * one.ms, line.share, one, line)
            for one in self._details.stacks
            if one.phase != Phase.PROFILING
            for line in one.lines
            if line.location.file
        ]
        found.sort(key=lambda each: -each[0])
        rows = [
            (
                duration(ms),
                percent(share),
                one.phase if one.where == "main" else f"{one.where}: {one.phase}",
                _place(line.location),
            )
            for ms, share, one, line in found[:_LINES]
        ]
        return self._table(("time", "of it", "phase", "line"), rows)

    def _layers(self) -> Table | None:
        layers = sorted(
            self._details.layers,
            key=lambda one: -(one.self_forward_ms + (one.self_backward_ms or 0.0)),
        )
        rows = [
            (
                duration(one.self_forward_ms),
                "?" if one.self_backward_ms is None else duration(one.self_backward_ms),
                "?" if one.memory_bytes is None else bytes_text(one.memory_bytes),
                f"{one.path or '(the model)'} {one.kind}",
            )
            for one in layers[:_LAYERS]
        ]
        steps = steps_text(self._details.layer_steps)
        return self._table(("forward", "backward", "keeps", f"layer, mean of {steps}"), rows)

    def _ops(self) -> Table | None:
        rows = [
            (duration(one.self_ms), percent(one.share), f"{one.calls:,.0f}", one.name)
            for one in self._details.ops[:_OPS]
        ]
        steps = steps_text(self._details.op_steps)
        return self._table(("self", "share", "calls", f"operator, mean of {steps}"), rows)

    def _memory(self) -> Table | None:
        rows = [
            (
                bytes_text(one.bytes_per_step),
                bytes_text(one.last_bytes),
                f"{one.blocks:,}",
                _place(one.location),
            )
            for one in self._details.memory[:_MEMORY]
        ]
        return self._table(("grows a step", "held", "blocks", "line that allocates it"), rows)

    def _stack(self) -> Iterator[RenderableType]:
        """Down the dearest branch: where it stands."""
        node = self._details.stacks[0].flame
        found = []
        while node is not None and node.children:
            node = node.children[0]
            found.append(f"{node.file}:{node.line} in {node.name}")
        if found:
            yield Text()
            yield self._text("stands in (innermost last)", "dim")
            for line in found[-_FRAMES:]:
                yield self._text(f"  {line}")


def _place(location: Location) -> str:
    inside = f" in {location.function}" if location.function else ""
    return f"{location.file}:{location.line}{inside}"
