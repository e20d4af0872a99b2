"""Where the bytes are, as text for a terminal, a pipe or a file."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from stepscope.model.finding import Location
from stepscope.model.memory import DeviceMemory, Growing, Memory, Peak
from stepscope.report.glyphs import Glyphs, glyphs_for
from stepscope.report.memory_words import (
    by_category,
    by_line,
    facts,
    growth_figures,
    peak_title,
    place_text,
    verdict,
    where_measured,
)
from stepscope.report.shorten import shorten
from stepscope.report.units import bytes_text

__all__ = ["render_memory"]

_LINES = 10
_SUSPECTS = 5
_FRAMES = 6
_HOLDERS = 4
_PYTHON_LINES = 5
_BAR = 30
_INDENT = 4
_COLOURS = {
    "parameter": "blue",
    "optimizer state": "green",
    "gradient": "cyan",
    "activation": "yellow",
    "input": "magenta",
    "temporary": "red",
}


def render_memory(memory: Memory, name: str, console: Console) -> None:
    """Print it: verdict, the peak by category and by line, what grows, then the rest."""
    view = _View(memory, name, glyphs_for(console.encoding))
    for part in view.parts():
        console.print(part)


class _View:
    def __init__(self, memory: Memory, name: str, glyphs: Glyphs) -> None:
        self._memory = memory
        self._name = name
        self._glyphs = glyphs

    def parts(self) -> Iterator[RenderableType]:
        yield self._text((f"stepscope · {self._name} · {where_measured(self._memory)}", "dim"))
        yield Text()
        for sentence in verdict(self._memory):
            yield self._text((sentence, "bold yellow"))
        for device in self._memory.devices:
            yield from self._device(device)
        for number, one in enumerate(self._memory.growing[:_SUSPECTS], 1):
            yield Text()
            yield from self._growing(number, one)
        more = len(self._memory.growing) - _SUSPECTS
        if more > 0:
            yield self._text((f"… and {more:,} more lines that grow", "dim"))
        if self._memory.python_lines:
            yield Text()
            yield self._python_lines()
        yield Text()
        yield self._facts()

    def _text(self, *parts: str | tuple[str, str]) -> Text:
        """Pieces of text, styled where they come with a style; never read as markup, and without
        what would steer a terminal."""
        made = Text()
        for part in parts:
            text, style = (part, "") if isinstance(part, str) else part
            made.append(self._glyphs.text(text), style)
        return made

    def _indented(self, text: Text, by: int = _INDENT) -> Padding:
        return Padding(text, (0, 0, 0, by), expand=False)

    def _device(self, device: DeviceMemory) -> Iterator[RenderableType]:
        yield Text()
        yield self._text((peak_title(device), "bold"))
        if not device.peak.parts:
            yield self._indented(self._text(("What it was made of was not measured.", "dim")))
            return
        yield self._categories(device.peak)
        if by_line(device.peak):
            yield Text()
            yield self._lines(device.peak)

    def _categories(self, peak: Peak) -> Table:
        table = _table(("category", "bytes", "share", ""))
        for one in by_category(peak):
            colour = _COLOURS.get(one.category, "")
            table.add_row(
                self._text((one.category, colour)),
                self._text(bytes_text(one.bytes)),
                self._text(f"{one.share * 100:.1f} %"),
                self._text((self._glyphs.bar(one.share, _BAR), colour)),
            )
        return table

    def _lines(self, peak: Peak) -> Table:
        table = _table(("line and layer", "bytes", "blocks", "category"))
        lines = by_line(peak)
        for part in lines[:_LINES]:
            table.add_row(
                self._text(place_text(part.location)),
                self._text(bytes_text(part.bytes)),
                self._text("–" if part.blocks is None else f"{part.blocks:,}"),
                self._text((part.category, _COLOURS.get(part.category, ""))),
            )
        if len(lines) > _LINES:
            table.add_row(self._text((f"… and {len(lines) - _LINES:,} more", "dim")))
        return table

    def _growing(self, number: int, one: Growing) -> Iterator[RenderableType]:
        yield self._text((f"{number}. {one.verdict}", "bold"), f"  {growth_figures(one)}")
        yield self._indented(self._text(one.why))
        place = place_text(one.location)
        if place:
            yield self._indented(self._text(("at ", "dim"), (place, "cyan")))
        for frame in _callers(one.location, one.stack)[:_FRAMES]:
            yield self._indented(self._text(("from ", "dim"), place_text(frame)), _INDENT + 2)
        for holder in one.held_by[:_HOLDERS]:
            yield self._indented(self._text(("held by ", "dim"), shorten(holder, 200)))
        if one.made_by:
            yield self._indented(self._text(("objects of ", "dim"), shorten(one.made_by)))

    def _python_lines(self) -> Table:
        table = _table(("line of the Python heap", "bytes", "blocks", "grown by"))
        for line in self._memory.python_lines[:_PYTHON_LINES]:
            grown = line.grown_bytes
            table.add_row(
                self._text(place_text(line.location)),
                self._text(bytes_text(line.bytes)),
                self._text(f"{line.blocks:,}"),
                self._text("" if grown is None else bytes_text(max(0, grown))),
            )
        return table

    def _facts(self) -> Table:
        table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, show_header=False)
        table.add_column(no_wrap=True)
        table.add_column(overflow="fold")
        for fact in facts(self._memory):
            table.add_row(self._text((fact.title, "dim")), self._text(fact.text))
        for note in self._memory.notes:
            table.add_row(self._text(("note", "yellow")), self._text(note))
        return table


def _table(titles: tuple[str, ...]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for title in titles:
        figures = title in ("bytes", "share", "blocks", "grown by")
        table.add_column(
            title,
            justify="right" if figures else "left",
            header_style="dim",
            no_wrap=figures or title in ("", "category"),
            overflow="fold",
        )
    return table


def _callers(place: Location, stack: tuple[Location, ...]) -> tuple[Location, ...]:
    """The frames outside of a place; all of them where it is not among them."""
    for at, frame in enumerate(stack):
        if (frame.file, frame.line) == (place.file, place.line):
            return stack[at + 1 :]
    return stack
