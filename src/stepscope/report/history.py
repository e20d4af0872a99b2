"""Series of past runs as text: what changed in words, a line of bars, and a table."""

from __future__ import annotations

import time
from collections.abc import Iterator

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from stepscope.model.comparison import Metric, percent_change
from stepscope.model.history import HistoryRun, LevelChange, Series
from stepscope.report.compare_words import value_text
from stepscope.report.glyphs import Glyphs, glyphs_for
from stepscope.report.shorten import shorten
from stepscope.report.sparkline import bars

__all__ = ["render_history", "sparkline"]

_TOO_FEW = "Too few runs to tell a change from chance."
_ROWS = 20
_WIDTH = 60


def render_history(series: list[Series], console: Console) -> None:
    glyphs = glyphs_for(console.encoding)
    for one in series:
        for part in _parts(one, glyphs):
            console.print(part)


def _parts(series: Series, glyphs: Glyphs) -> Iterator[RenderableType]:
    runs = "1 run" if len(series.runs) == 1 else f"{len(series.runs):,} runs"
    yield _text(glyphs, f"{series.label} · {series.metric.title} · {runs}", "bold")
    for change in series.changes:
        worse = (change.ratio > 1) != series.metric.more_is_better
        yield _indented(_text(glyphs, _words(series, change), "red" if worse else "green"))
    if not series.changes:
        said = "No change that chance could not have made." if series.enough else _TOO_FEW
        yield _indented(_text(glyphs, said, "dim"))
    values = [run.value for run in series.runs]
    yield _indented(Text(sparkline(values, glyphs)))
    yield _indented(_table(series, glyphs))
    yield Text()


def _words(series: Series, change: LevelChange) -> str:
    """slower since run-12 (+12.0 %)"""
    up = change.ratio > 1
    word = _WORDS.get(series.metric.unit, ("more", "less"))[0 if up else 1]
    run = series.runs[change.place]
    before, after = series.levels[change.place - 1], series.levels[change.place]
    values = f"{value_text(series.metric, before)} → {value_text(series.metric, after)}"
    return f"{word} since {run.name}, {_when(run)} ({percent_change(change.ratio)}): {values}"


_WORDS = {"ms": ("slower", "faster"), "/s": ("faster", "slower"), "bytes": ("more", "less")}


def sparkline(values: list[float], glyphs: Glyphs) -> str:
    """The last values as bars, the highest the tallest. Equal values: low bars."""
    shown = values[-_WIDTH:]
    return bars(shown, glyphs, min(shown), max(shown))


def _table(series: Series, glyphs: Glyphs) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for title, justify in (("run", "left"), ("started", "left"), (series.metric.title, "right")):
        table.add_column(title, justify=justify, header_style="dim", no_wrap=True)  # type: ignore[arg-type]
    table.add_column("", no_wrap=True)
    marks = {change.place: change.ratio for change in series.changes}
    first = max(0, len(series.runs) - _ROWS)
    if first:
        table.add_row(_text(glyphs, f"… {first:,} older", "dim"))
    for place in range(first, len(series.runs)):
        run = series.runs[place]
        mark = f"← {percent_change(marks[place])} from here on" if place in marks else ""
        table.add_row(*_cells(run, series.metric, glyphs), _text(glyphs, mark, "yellow"))
    return table


def _cells(run: HistoryRun, metric: Metric, glyphs: Glyphs) -> tuple[Text, Text, Text]:
    name = _text(glyphs, shorten(run.name, 40))
    return name, _text(glyphs, _when(run)), _text(glyphs, value_text(metric, run.value))


def _when(run: HistoryRun) -> str:
    if run.started_unix is None:
        return "?"
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(run.started_unix))


def _indented(part: RenderableType) -> Padding:
    return Padding(part, (0, 0, 0, 2), expand=False)


def _text(glyphs: Glyphs, text: str, style: str = "") -> Text:
    return Text(glyphs.text(text), style)
