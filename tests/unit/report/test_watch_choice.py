from __future__ import annotations

from dataclasses import replace

from stepscope.report.watch_choice import Choice, Pane, pressed, selected_at
from tests.unit.report.made_live import made_alert, made_view

VIEW = made_view()


def typed(*keys: str, choice: Choice | None = None) -> Choice:
    made = choice or Choice()
    for key in keys:
        made = pressed(made, key, VIEW)
    return made


def test_each_pane_has_its_key_which_also_leaves_it() -> None:
    for key, pane in (("a", Pane.ALERTS), ("p", Pane.PHASES), ("r", Pane.RESOURCES)):
        assert typed(key).pane is pane
        assert typed(key, key).pane is Pane.OVERVIEW
    assert typed("h").pane is typed("?").pane is Pane.HELP
    assert typed("a", "p").pane is Pane.PHASES


def test_escape_goes_up_by_one() -> None:
    assert typed("enter", "escape").pane is Pane.ALERTS
    assert typed("enter", "escape", "escape").pane is Pane.OVERVIEW


def test_arrows_select_an_alert_and_enter_opens_it() -> None:
    assert selected_at(typed("down"), VIEW) == 1
    assert selected_at(typed("down", "down", "down", "down"), VIEW) == 2
    assert selected_at(typed("down", "up", "up"), VIEW) == 0
    opened = typed("a", "down", "enter")
    assert (opened.pane, opened.alert) == (Pane.ALERT, "run-2")


def test_the_selected_alert_stays_selected_when_a_worse_one_comes_before_it() -> None:
    chosen = typed("down")
    later = replace(VIEW, alerts=(made_alert(9), *VIEW.alerts))
    assert later.alerts[selected_at(chosen, later)].id == "run-2"
    assert selected_at(chosen, replace(VIEW, alerts=(made_alert(9),))) == 0


def test_without_alerts_there_is_nothing_to_select_or_to_open() -> None:
    calm = made_view(alerts=())
    for key in ("up", "down", "enter"):
        assert pressed(Choice(), key, calm) == Choice()


def test_elsewhere_arrows_scroll_and_never_above_the_top() -> None:
    assert typed("r", "down", "down").scroll == 2
    assert typed("r", "down", "up", "up").scroll == 0
    assert typed("r", "page down", "p").scroll == 0


def test_space_pauses_and_goes_on() -> None:
    assert typed("space").is_paused
    assert not typed("space", "space").is_paused


def test_an_answer_goes_with_the_next_key() -> None:
    assert typed("z", choice=Choice(said="hello")).said == ""


def test_other_keys_change_nothing() -> None:
    for key in ("x", "Q", "resize", "~"):
        assert typed(key) == Choice()
