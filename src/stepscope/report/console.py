"""Rich consoles that show hidden characters instead of sending them to the terminal."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TextIO

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from stepscope.printer import make_visible

__all__ = ["console_on"]


class _VisibleConsole(Console):
    """Styles and cursor movements are ours and pass; text content is made visible."""

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            text, style, control = segment
            yield segment if control else Segment(make_visible(text), style)


def console_on(file: TextIO, width: int | None = None) -> Console:
    """A console that reads nothing in a text as markup, emoji or numbers to highlight."""
    return _VisibleConsole(file=file, width=width, markup=False, emoji=False, highlight=False)
