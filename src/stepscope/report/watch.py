"""The live view of a run: a screen of rows, or a snapshot of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from rich.text import Text

from stepscope.model.live import LiveView, RunState
from stepscope.report.glyphs import Glyphs
from stepscope.report.watch_choice import Choice, Pane
from stepscope.report.watch_panes import Panes
from stepscope.report.watch_rows import Rows
from stepscope.report.watch_words import figures, state_text, verdict_text

__all__ = ["LEAST_COLUMNS", "LEAST_ROWS", "screen", "snapshot"]

LEAST_COLUMNS, LEAST_ROWS = 30, 8
_STYLES: Final = {
    RunState.STARTING: "yellow",
    RunState.RUNNING: "green",
    RunState.ENDING: "cyan",
    RunState.FINISHED: "cyan",
    RunState.KILLED: "red",
    RunState.NOT_RESPONDING: "bold red",
}


def screen(
    view: LiveView, choice: Choice, size: tuple[int, int], glyphs: Glyphs, now_unix: float
) -> list[Text]:
    """As many rows as the terminal has. size: columns and rows."""
    columns, height = size
    if columns < LEAST_COLUMNS or height < LEAST_ROWS:
        small = f"{LEAST_COLUMNS} x {LEAST_ROWS} at least, q quits"
        return [Rows(columns, glyphs).row(small)][:height]
    rows = Rows(columns, glyphs)
    panes = Panes(view, choice, rows, now_unix)
    head = [*_head(view, choice, rows)]
    room = height - len(head) - 1
    body = _body(panes, choice, room)
    foot = rows.spread([choice.said or _keys(choice)], ["? help"])
    foot.stylize("reverse")
    return [*head, *body[:room], *[Text(end="")] * max(0, room - len(body)), foot]


def snapshot(view: LiveView, width: int, glyphs: Glyphs, now_unix: float) -> Iterator[Text]:
    """All of it, once, for a pipe or a file."""
    rows = Rows(width, glyphs)
    panes = Panes(view, None, rows, now_unix)
    yield from _head(view, Choice(), rows)
    for part in (panes.alerts(len(view.alerts) + 1), panes.phases(), panes.resources()):
        yield Text(end="")
        yield from part


def _head(view: LiveView, choice: Choice, rows: Rows) -> Iterator[Text]:
    """Which run, how it is, and the verdict: what one looks for first."""
    state = state_text(view)
    if choice.is_paused:
        state += ", display paused"
    yield rows.spread([("stepscope ", "dim"), (view.run, "bold")], [(state, _STYLES[view.state])])
    if choice.pane in (Pane.ALERT, Pane.HELP):  # these need the room
        return
    if view.command:
        yield rows.row((view.command, "dim"))
    good = view.verdict is not None and view.verdict.kind == "compute"
    yield from rows.wrapped((verdict_text(view), f"bold {'green' if good else 'yellow'}"), most=2)
    advice = view.verdict.recommendation if view.verdict is not None else None
    if advice is not None:
        yield rows.row(("→ ", "green"), (advice.title, "green"))
    yield from rows.wrapped(figures(view), most=2)
    for note in view.notes if view.verdict is not None else view.notes[1:]:
        yield from rows.wrapped((note, "yellow"), most=3)


def _body(panes: Panes, choice: Choice, room: int) -> list[Text]:
    if choice.pane is Pane.OVERVIEW:
        return panes.overview(room)
    made = {
        Pane.ALERTS: lambda: panes.alerts(room),
        Pane.ALERT: panes.alert,
        Pane.PHASES: lambda: [*panes.phases(), *panes.ranks()],
        Pane.RESOURCES: panes.resources,
        Pane.HELP: panes.help,
    }[choice.pane]
    body = list(made())
    # Never further than to the last row.
    return body[min(choice.scroll, max(0, len(body) - room)) :]


def _keys(choice: Choice) -> str:
    keys = ["q quit"]
    if choice.pane is Pane.OVERVIEW:
        keys += ["a alerts", "p phases", "r resources", "space pause"]
    elif choice.pane is Pane.ALERTS:
        keys += ["up/down select", "enter details", "esc back"]
    else:
        keys += ["up/down scroll", "esc back"]
    if choice.can_capture and choice.pane in (Pane.OVERVIEW, Pane.ALERT):
        keys.append("c closer look")
    return " · ".join(keys)
