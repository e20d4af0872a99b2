"""A line profile as text: the functions that took the time, line by line, with their source."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterator
from typing import TypeAlias

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from stepscope.model.lines import FunctionTime, LineProfile, LineTime
from stepscope.report.glyphs import Glyphs, glyphs_for

__all__ = ["Source", "render_lines"]

# The text of a line of a file, "" where it cannot be read: linecache.getline, for one.
Source: TypeAlias = Callable[[str, int], str]

_FUNCTIONS = 10
_BAR = 6
_SOURCE_CHARS = 500  # generated code has lines of megabytes


def render_lines(profile: LineProfile, console: Console, source: Source, title: str = "") -> None:
    """Print where the time of a block went: per function its lines, those that were never seen
    left out. `total`: with what a line calls; `own`: without the Python functions it calls."""
    view = _View(profile, source, glyphs_for(console.encoding))
    for part in view.parts(title):
        console.print(part)


class _View:
    def __init__(self, profile: LineProfile, source: Source, glyphs: Glyphs) -> None:
        self._profile, self._source, self._glyphs = profile, source, glyphs

    def parts(self, title: str) -> Iterator[RenderableType]:
        profile = self._profile
        yield self._heading(title)
        if not profile.samples:
            return
        for function in profile.functions[:_FUNCTIONS]:
            yield Text()
            yield self._function_heading(function)
            yield self._lines(function)
        more = len(profile.functions) - _FUNCTIONS
        if more > 0:
            yield Text()
            yield self._text((f"… and {more} functions more", "dim"))
        if profile.unnamed_ns:
            yield Text()
            unnamed = f"{_ms(profile.unnamed_ns)} ms were spent in stacks that have no name."
            yield self._text((unnamed, "yellow"))

    def _heading(self, title: str) -> Text:
        name = f"lines of {_clean(title)}" if title else "lines"
        if not self._profile.samples:
            return self._text((name, "bold"), " · no samples: too short, or not sampled")
        samples = self._profile.samples
        count = "1 sample" if samples == 1 else f"{samples:,} samples"
        return self._text((name, "bold"), f" · {_ms(self._profile.total_ns)} ms · {count}")

    def _function_heading(self, function: FunctionTime) -> Text:
        facts = f"{_percent(function.share)} · {_ms(function.total_ns)} ms"
        own = f" · own {_ms(function.self_ns)} ms" if function.self_ns else ""
        text = self._text(
            (f"{_clean(function.function)}\n", "bold green"),
            f"{facts}{own} · ",
            (_clean(function.file), "dim"),
        )
        text.overflow = "fold"
        return text

    def _lines(self, function: FunctionTime) -> Table:
        table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, expand=True)
        for name, width in (("line", 5), ("total ms", 9), ("own ms", 9), ("share", 7)):
            table.add_column(
                name, justify="right", header_style="dim", no_wrap=True, min_width=width
            )
        table.add_column("", no_wrap=True, min_width=_BAR, max_width=_BAR)
        table.add_column("", no_wrap=True, overflow="crop", ratio=1)
        sources = _dedented([self._source_of(line) for line in function.lines])
        for line, text in zip(function.lines, sources, strict=True):
            table.add_row(*self._row(line, text))
        return table

    def _row(self, line: LineTime, source: str) -> tuple[Text, ...]:
        colour = "red" if line.share >= 0.2 else "yellow" if line.share >= 0.05 else ""
        return (
            self._text((str(line.line), "dim")),
            self._text(_ms(line.total_ns)),
            self._text(_ms(line.self_ns) if line.self_ns else ""),
            self._text((_percent(line.share), colour)),
            self._text((self._glyphs.bar(min(line.share, 1.0), _BAR), colour)),
            self._text(source),
        )

    def _source_of(self, line: LineTime) -> str:
        try:
            text = self._source(line.file, line.line)
        except Exception:  # noqa: BLE001 - whatever a file or a loader is up to: no source then
            text = ""
        return _clean(text[:_SOURCE_CHARS].rstrip().expandtabs(4))

    def _text(self, *parts: str | tuple[str, str]) -> Text:
        made = Text()
        for part in parts:
            text, style = (part, "") if isinstance(part, str) else part
            made.append(self._glyphs.text(text), style)
        return made


def _clean(text: str) -> str:
    """Without what would move the cursor, hide text or turn its direction."""
    return "".join("·" if unicodedata.category(char)[0] == "C" else char for char in text)


def _dedented(lines: list[str]) -> list[str]:
    """Without the indentation that all of them have: a function stands in a class, in a module."""
    common = min((len(line) - len(line.lstrip()) for line in lines if line.strip()), default=0)
    return [line[common:] for line in lines]


def _ms(ns: int) -> str:
    return f"{ns / 1e6:,.1f}"


def _percent(share: float) -> str:
    return f"{share * 100:.1f} %"
