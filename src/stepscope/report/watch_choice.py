"""What the person in front of the live view has chosen to see, and what keys make of it."""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace
from typing import Final

from stepscope.model.live import LiveView

__all__ = ["Choice", "Pane", "pressed", "selected_at"]


class Pane(enum.StrEnum):
    OVERVIEW = "overview"
    ALERTS = "alerts"
    ALERT = "alert"
    PHASES = "phases"
    RESOURCES = "resources"
    HELP = "help"


@dataclass(frozen=True, slots=True)
class Choice:
    """alert: id of the one that is selected; "": the first. scroll: rows that are above the screen.
    can_capture: whether this run can be asked for a closer look. said: an answer to the last key.
    """

    pane: Pane = Pane.OVERVIEW
    alert: str = ""
    scroll: int = 0
    is_paused: bool = False
    can_capture: bool = False
    said: str = ""


_PANES: Final = {
    "a": Pane.ALERTS,
    "p": Pane.PHASES,
    "r": Pane.RESOURCES,
    "h": Pane.HELP,
    "?": Pane.HELP,
}
_MOVES: Final = {"up": -1, "k": -1, "down": 1, "j": 1, "page up": -10, "page down": 10}


def pressed(choice: Choice, key: str, view: LiveView) -> Choice:
    """What is chosen after that key; one that means nothing changes nothing."""
    choice = replace(choice, said="")
    if key in _PANES:
        pane = Pane.OVERVIEW if choice.pane is _PANES[key] else _PANES[key]
        return replace(choice, pane=pane, scroll=0)
    if key == "escape":
        above = Pane.ALERTS if choice.pane is Pane.ALERT else Pane.OVERVIEW
        return replace(choice, pane=above, scroll=0)
    if key == "space":
        return replace(choice, is_paused=not choice.is_paused)
    if key == "enter" and choice.pane in (Pane.OVERVIEW, Pane.ALERTS) and view.alerts:
        chosen = view.alerts[selected_at(choice, view)].id
        return replace(choice, pane=Pane.ALERT, alert=chosen, scroll=0)
    if key in _MOVES:
        return _moved(choice, _MOVES[key], view)
    return choice


def _moved(choice: Choice, by: int, view: LiveView) -> Choice:
    if choice.pane in (Pane.OVERVIEW, Pane.ALERTS):
        if not view.alerts:
            return choice
        at = min(len(view.alerts) - 1, max(0, selected_at(choice, view) + by))
        return replace(choice, alert=view.alerts[at].id)
    return replace(choice, scroll=max(0, choice.scroll + by))


def selected_at(choice: Choice, view: LiveView) -> int:
    """Place of the selected alert: it stays selected when others come before it."""
    ids = [alert.id for alert in view.alerts]
    return ids.index(choice.alert) if choice.alert in ids else 0
