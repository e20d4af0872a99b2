"""What tuning came to as text: the gain first, then every change that was tried."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from stepscope.model.change import Change
from stepscope.model.trial import Speedup, Trial, Tuning, Verdict
from stepscope.report.glyphs import Glyphs, glyphs_for
from stepscope.report.plan import add_row
from stepscope.report.units import duration, factor, percent

__all__ = ["render_proposals", "render_tuning"]


def render_tuning(tuning: Tuning, name: str, console: Console) -> None:
    glyphs = glyphs_for(console.encoding)
    for part in _parts(tuning, name, glyphs):
        console.print(part)


def _parts(tuning: Tuning, name: str, glyphs: Glyphs) -> Iterator[RenderableType]:
    yield _text(glyphs, f"stepscope · {name} · tuned", "dim")
    yield Text()
    yield _text(glyphs, _verdict(tuning), "bold yellow")
    if tuning.trials:
        yield Text()
        table = _table(glyphs, ("change", "", "predicted", "measured", "interval", "result"))
        for trial in tuning.trials:
            add_row(table, glyphs, *_cells(trial))
        yield table
    for note in tuning.notes:
        yield Text()
        yield _text(glyphs, f"note: {note}", "yellow")
    yield Text()


def _table(glyphs: Glyphs, titles: tuple[str, ...]) -> Table:
    """Figures in the middle to the right; the words at both ends may take several lines."""
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for place, title in enumerate(titles):
        is_figure = 2 <= place < len(titles) - 1
        table.add_column(
            glyphs.text(title),
            justify="right" if is_figure else "left",
            header_style="dim",
            no_wrap=is_figure or place == 0,
        )
    return table


def _verdict(tuning: Tuning) -> str:
    if not tuning.kept:
        if not tuning.trials:
            return "Nothing to change: no finding that a change without an edit answers."
        if all(trial.verdict is Verdict.NOT_TRIED for trial in tuning.trials):
            return "Nothing was tried."
        return "Nothing is kept: none of what was tried provably helps."
    what = ", ".join(change.title for change in tuning.kept)
    if tuning.saved_memory is not None:
        return f"The peak of memory is {percent(tuning.saved_memory)} lower: {what}."
    if tuning.speedup is None:
        return f"Faster, by how much together was not measured: {what}."
    step = ""
    if tuning.base_step_s is not None:
        before, after = tuning.base_step_s, tuning.base_step_s / tuning.speedup.middle
        step = f" (a step of {duration(before * 1e3)} takes {duration(after * 1e3)})"
    return f"{factor(tuning.speedup.middle)} as fast{step}: {what}."


def _cells(trial: Trial) -> tuple[str, ...]:
    predicted = trial.change.predicted
    return (
        trial.change.name,
        trial.change.title,
        "unknown" if predicted is None else factor(predicted),
        "" if trial.measured is None else factor(trial.measured.middle),
        "" if trial.measured is None else _interval(trial.measured),
        "kept" if trial.kept else f"not kept: {trial.why}",
    )


def _interval(speedup: Speedup) -> str:
    return f"{speedup.low:.2f} to {speedup.high:.2f}"


def render_proposals(changes: list[tuple[Change, str]], console: Console) -> None:
    """What would be tried. With each change why it would not be; "": it would."""
    glyphs = glyphs_for(console.encoding)
    table = _table(glyphs, ("change", "", "predicted", "settings", "result"))
    for change, why in changes:
        settings = ", ".join(f"{key}={value}" for key, value in change.settings.items())
        predicted = "unknown" if change.predicted is None else factor(change.predicted)
        add_row(table, glyphs, change.name, change.title, predicted, settings, why)
    console.print(table)


def _text(glyphs: Glyphs, text: str, style: str) -> Text:
    return Text(glyphs.text(text), style)
