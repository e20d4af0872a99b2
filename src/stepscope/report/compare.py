"""A comparison as text for a terminal, and as Markdown for a pull request."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from stepscope.model.comparison import Comparison, Outcome, RunFigures
from stepscope.printer import make_visible
from stepscope.report.compare_words import FIGURES, PHASES, figure_cells, headline, phase_cells
from stepscope.report.glyphs import Glyphs, glyphs_for
from stepscope.report.shorten import shorten

__all__ = ["as_markdown", "render_comparison"]

_COLOURS = {
    Outcome.REGRESSION: "bold red",
    Outcome.IMPROVEMENT: "bold green",
    Outcome.NO_CHANGE: "bold green",
    Outcome.INCONCLUSIVE: "bold yellow",
}
_NAMED = 3
_MARKDOWN_SPECIAL = "\\`*_{}[]<>|#"


def render_comparison(comparison: Comparison, console: Console) -> None:
    glyphs = glyphs_for(console.encoding)
    for part in _parts(comparison, glyphs):
        console.print(part)


def _parts(comparison: Comparison, glyphs: Glyphs) -> Iterator[RenderableType]:
    yield _text(glyphs, f"stepscope · compare · {_groups(comparison)}", "dim")
    yield Text()
    yield _text(glyphs, headline(comparison), _COLOURS[comparison.outcome])
    for reason in comparison.reasons:
        yield Padding(_text(glyphs, reason), (0, 0, 0, 2), expand=False)
    yield Text()
    yield _table(glyphs, FIGURES, (figure_cells(row) for row in comparison.rows))
    if comparison.phases:
        yield Text()
        yield _table(glyphs, PHASES, phase_cells(comparison))
    yield Text()
    for group, verdict in zip(("base", "new"), comparison.verdicts, strict=True):
        yield _text(glyphs, f"{group:<5}{verdict or 'no verdict'}")
    for warning in comparison.warnings:
        yield _text(glyphs, f"note: {warning}", "yellow")


def _table(glyphs: Glyphs, titles: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for place, title in enumerate(titles):
        last = place == len(titles) - 1
        table.add_column(
            glyphs.text(title),
            justify="left" if place == 0 or last else "right",
            header_style="dim",
            no_wrap=True,
        )
    for cells in rows:
        table.add_row(*(_text(glyphs, cell) for cell in cells))
    return table


def _text(glyphs: Glyphs, text: str, style: str = "") -> Text:
    return Text(glyphs.text(text), style)


def _groups(comparison: Comparison) -> str:
    return f"base: {_named(comparison.base)} · new: {_named(comparison.new)}"


def _named(runs: Sequence[RunFigures]) -> str:
    names = [shorten(run.name, 30) for run in runs]
    if len(names) <= _NAMED:
        return ", ".join(names)
    return f"{len(names)} runs ({names[0]} … {names[-1]})"


def as_markdown(comparison: Comparison) -> str:
    """Tables as GitHub and GitLab show them."""
    lines = [f"## {_escape(headline(comparison))}", "", _escape(_groups(comparison)), ""]
    lines += [f"- {_escape(reason)}" for reason in comparison.reasons]
    lines += ["", *_markdown_table(FIGURES, (figure_cells(row) for row in comparison.rows))]
    if comparison.phases:
        lines += ["", *_markdown_table(PHASES, phase_cells(comparison))]
    lines += ["", f"- base: {_escape(comparison.verdicts[0] or 'no verdict')}"]
    lines += [f"- new: {_escape(comparison.verdicts[1] or 'no verdict')}"]
    if comparison.warnings:
        lines += ["", *(f"> {_escape(warning)}" for warning in comparison.warnings)]
    confidence = f"{comparison.confidence * 100:.3g}"
    lines += ["", f"Intervals hold the true change with {confidence} % confidence."]
    return "\n".join(lines) + "\n"


def _markdown_table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    marks = ["---", *["---:"] * (len(titles) - 1)]
    return [_line(titles), _line(marks), *(_line([_escape(cell) for cell in row]) for row in rows)]


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _escape(text: str) -> str:
    """Names of runs are the user's: nothing in them is read as markup, nor breaks a row."""
    shown = make_visible(" ".join(text.split()))
    return "".join(f"\\{one}" if one in _MARKDOWN_SPECIAL else one for one in shown)
