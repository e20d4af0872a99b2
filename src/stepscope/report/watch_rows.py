"""Rows of a screen: pieces of styled text, cut to its width. Nothing in them is read as markup."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from typing import Final

from rich.cells import cell_len
from rich.text import Text

from stepscope.printer import in_one_line
from stepscope.report.console import console_on
from stepscope.report.glyphs import Glyphs
from stepscope.report.sparkline import bars, fitted

__all__ = ["Rows"]

Part = str | tuple[str, str]  # a text, or one with its style
_NOWHERE: Final = console_on(io.StringIO())  # wrapping asks for one


class Rows:
    """Makes rows for a screen that is `width` columns wide."""

    def __init__(self, width: int, glyphs: Glyphs) -> None:
        self.width, self.glyphs = max(1, width), glyphs

    def row(self, *parts: Part) -> Text:
        """One row; what does not fit is cut, and that is shown."""
        return self._cut(self._text(parts), self.width)

    def spread(self, left: Sequence[Part], right: Sequence[Part]) -> Text:
        """One row with something at its right end, which is the last to be cut."""
        end = self._cut(self._text(right), self.width)
        begin = self._cut(self._text(left), max(0, self.width - end.cell_len - 1))
        begin.append(" " * max(0, self.width - begin.cell_len - end.cell_len))
        return begin.append_text(end)

    def wrapped(self, *parts: Part, indent: int = 0, most: int = 0) -> Iterator[Text]:
        """As many rows as it takes, or at most `most`."""
        lines = list(self._text(parts).wrap(_NOWHERE, max(10, self.width - indent)))
        if most and len(lines) > most:
            rest = Text(" ").join(lines[most - 1 :])
            lines[most - 1 :] = [self._cut(rest, max(10, self.width - indent))]
        for line in lines:
            line.rstrip()
            yield self._cut(Text(" " * indent).append_text(line), self.width)

    def padded(self, text: str, width: int, style: str = "") -> tuple[str, str]:
        """A cell of a table: as wide as that, whatever the text."""
        cell = self._cut(self._text([text]), width)
        return cell.plain + " " * (width - cell_len(cell.plain)), style

    def sparkline(self, points: Sequence[float | None], width: int, low: float, high: float) -> str:
        return bars(fitted(points, width), self.glyphs, low, high)

    def _text(self, parts: Sequence[Part]) -> Text:
        made = Text(end="")
        for part in parts:
            text, style = (part, "") if isinstance(part, str) else part
            made.append(self.glyphs.text(in_one_line(text)), style)
        return made

    def _cut(self, text: Text, width: int) -> Text:
        if text.cell_len <= width:
            return text
        dots = self.glyphs.text("…")
        if width <= len(dots):
            text.truncate(width)
            return text
        text.truncate(width - len(dots))
        return text.append(dots)
