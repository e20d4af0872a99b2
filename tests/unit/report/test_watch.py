from __future__ import annotations

import io
from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console

from stepscope.model.finding import Location, Recommendation
from stepscope.model.live import LiveView, PhaseNow, RankNow, RunState, ToldNow, Used
from stepscope.report.glyphs import ASCII, UNICODE, Glyphs
from stepscope.report.watch import screen, snapshot
from stepscope.report.watch_choice import Choice, Pane
from tests.unit.report.made_live import NOW_UNIX, made_alert, made_finding, made_view


def rows(
    view: LiveView | None = None,
    pane: Pane = Pane.OVERVIEW,
    size: tuple[int, int] = (80, 24),
    glyphs: Glyphs = UNICODE,
    **chosen: Any,
) -> list[str]:
    choice = Choice(pane=pane, **chosen)
    made = screen(view or made_view(), choice, size, glyphs, NOW_UNIX)
    return [row.plain.rstrip() for row in made]


def once(view: LiveView | None = None, glyphs: Glyphs = UNICODE) -> str:
    return "\n".join(row.plain for row in snapshot(view or made_view(), 80, glyphs, NOW_UNIX))


def test_the_verdict_comes_first_then_what_to_do_then_how_far_it_is() -> None:
    shown = rows()
    assert shown[0].split() == ["stepscope", "mnist", "running", "12", "min", "03", "s"]
    assert shown[1] == "python train.py --epochs 10"
    assert shown[2] == "Training waits for its data 58 % of the time."
    assert shown[3] == "→ Move the augmentation into the loader's workers"
    assert (
        shown[4] == "11,734 steps · 16.2 steps/s · 61.70 ms a step · about 1 h 12 min left (1 h 05"
    )
    assert shown[5] == "min to 1 h 20 min)"


def test_80_by_24_has_a_bit_of_everything() -> None:
    text = "\n".join(rows())
    for part in (
        "Alerts  2 going on, 1 over",
        "> high     steps take 31 % longer since step 812",
        "input wait             61 %       58 %",
        "memory          3.1 GB of 16 GB, full in 1 h 30 min",
        "CPU             1.9 of 2 CPUs",
        "GPU             41 % busy",
        "loss            0.3127",
        "q quit",
    ):
        assert part in text


@pytest.mark.parametrize("pane", list(Pane))
@pytest.mark.parametrize("glyphs", [UNICODE, ASCII])
def test_every_size_is_filled_and_nothing_stands_out(pane: Pane, glyphs: Glyphs) -> None:
    sizes = [(1, 1), (10, 3), (30, 8), (40, 12), (79, 23), (80, 24), (81, 25), (200, 60), (300, 9)]
    views = [made_view(), made_view(alerts=(), phases=(), history=(), used=Used(), verdict=None)]
    for view in views:
        for columns, height in sizes:
            made = screen(view, Choice(pane=pane, scroll=3), (columns, height), glyphs, NOW_UNIX)
            assert len(made) == height or (columns < 30 or height < 8)
            assert all(row.cell_len <= columns for row in made)


def test_without_unicode_every_character_is_ascii() -> None:
    for pane in Pane:
        assert "\n".join(rows(pane=pane, glyphs=ASCII)).isascii()
    assert once(glyphs=ASCII).isascii()


HOSTILE = "\x1b[2J\x1b]0;owned\x07\r\n[bold red]x[/]\x9b31m\u202egpj.exe\t\x00"


def _hostile() -> LiveView:
    finding = replace(
        made_finding("leak"),
        title=HOSTILE,
        evidence=(HOSTILE,),
        missing=(HOSTILE,),
        location=Location(HOSTILE, 3, HOSTILE, HOSTILE),
        recommendation=Recommendation(HOSTILE, HOSTILE, (1.0, 2.0), HOSTILE),
    )
    return made_view(
        run=HOSTILE,
        command=HOSTILE,
        verdict=finding,
        notes=(HOSTILE, HOSTILE),
        alerts=(made_alert(1, finding=finding, rule=HOSTILE, capture=HOSTILE),),
        told=(ToldNow(HOSTILE, 1.0, 1, (1.0, 2.0)),),
        phases=(PhaseNow(HOSTILE, 0.5, 0.5),),
        ranks=(RankNow(0, 1, 1.0, HOSTILE, 1.0), RankNow(1, 1)),
    )


@pytest.mark.parametrize("pane", list(Pane))
def test_text_from_outside_neither_reaches_the_terminal_nor_is_read_as_markup(pane: Pane) -> None:
    console = Console(file=io.StringIO(), force_terminal=True, color_system=None, width=200)
    with console.capture() as captured:
        for row in screen(_hostile(), Choice(pane=pane), (200, 60), UNICODE, NOW_UNIX):
            console.print(row, soft_wrap=True, highlight=False)
    shown = captured.get()
    for control in ("\x1b", "\x07", "\r", "\x9b", "\u202e", "\t", "\x00"):
        assert control not in shown
    if pane is not Pane.HELP:
        assert "[bold red]x[/]" in shown


def test_the_selected_alert_is_marked_and_in_sight() -> None:
    alerts = tuple(made_alert(number) for number in range(50))
    shown = rows(made_view(alerts=alerts), Pane.ALERTS, alert="run-40")
    assert sum(row.startswith("> ") for row in shown) == 1
    assert len(shown) == 24


def test_an_alert_tells_evidence_place_advice_and_its_capture() -> None:
    text = "\n".join(rows(pane=Pane.ALERT, alert="run-2"))
    for part in (
        "memory grows by 1.2 MB a step at train.py:48",
        "severity 50 % · confidence 94 % · began 3 min 20 s ago · at step 812",
        "The median of the last 15 steps is 81 ms",
        "Where: train.py:48 in augment",
        "What to do: Move the augmentation into the loader's workers",
        "expected 1.20× to 1.30× as fast",
        "Caveat: Random numbers",
        "Not known: whether another program",
        "Closer look: capture-0001.json",
    ):
        assert part in text


def test_a_long_alert_can_be_scrolled_to_its_end_and_no_further() -> None:
    finding = replace(made_finding(), evidence=tuple(f"line {number}" for number in range(60)))
    view = made_view(alerts=(made_alert(1, finding=finding),))
    far = rows(view, Pane.ALERT, scroll=10_000)
    assert far[-2].startswith("Not known")
    assert len(far) == 24


def test_ranks_are_shown_where_there_are_several() -> None:
    assert not any(row.startswith("Ranks") for row in rows(pane=Pane.PHASES))
    several = made_view(ranks=(RankNow(0, 100, 20.0, "forward", 0.4), RankNow(1, 98)))
    shown = "\n".join(rows(several, Pane.PHASES))
    assert "0                       100   20.00 ms  forward 40 %" in shown


def test_resources_name_each_gpu_and_the_disk() -> None:
    text = "\n".join(rows(pane=Pane.RESOURCES))
    assert "GPU 0           41 % busy, 9.1 GB of 24 GB, 71 °C, 210 W" in text
    assert "disk reads      12 MB/s" in text
    assert "machine         97 % of its CPUs busy" in text


def test_a_closer_look_is_offered_only_where_one_can_be_had() -> None:
    assert "c closer look" not in rows(pane=Pane.ALERT)[-1]
    assert "c closer look" in rows(pane=Pane.ALERT, can_capture=True)[-1]
    assert any("closer look" in row for row in rows(pane=Pane.HELP, can_capture=True)[:-1])


@pytest.mark.parametrize(
    ("others", "said"),
    [
        ({"state": RunState.FINISHED, "exit_code": 0}, "finished after 12 min 03 s"),
        ({"state": RunState.FINISHED, "exit_code": 3}, "failed, exit code 3 after 12 min 03 s"),
        ({"state": RunState.FINISHED, "exit_code": -9}, "ended by SIGKILL after 12 min 03 s"),
        ({"state": RunState.FINISHED, "exit_code": -99}, "ended by signal 99"),
        ({"state": RunState.KILLED}, "killed"),
        ({"state": RunState.NOT_RESPONDING}, "not responding"),
        ({"state": RunState.ENDING}, "ended, report being made"),
        ({"state": RunState.STARTING}, "asking for news"),
    ],
)
def test_the_state_is_said_in_words(others: dict[str, Any], said: str) -> None:
    assert said in rows(made_view(**others))[0]


def test_a_display_that_is_held_says_so() -> None:
    assert rows(is_paused=True)[0].endswith("running 12 min 03 s, display paused")


def test_a_run_that_makes_no_step_says_since_when() -> None:
    assert "last step 45 s ago" in "\n".join(rows(made_view(since_step_s=45.0)))
    slow = made_view(since_step_s=45.0, step_ms=20_000.0)
    assert "last step" not in "\n".join(rows(slow))


def test_without_a_verdict_it_is_said_why() -> None:
    before = made_view(verdict=None, steps=0)
    assert "No verdict yet: training has not begun." in rows(before)[2]
    noted = made_view(verdict=None, notes=("Torch was never imported.",))
    assert rows(noted)[2] == "Torch was never imported."


def test_a_loss_that_is_no_number_is_said_to_be_none() -> None:
    assert "not a number" in once(made_view(told=(ToldNow("loss", None),)))


def test_the_memory_of_a_run_that_is_over_is_its_most() -> None:
    view = made_view(state=RunState.FINISHED, used=Used(memory_bytes=2e9, memory_limit_bytes=4e9))
    assert "at most 2.0 GB of 4.0 GB" in once(view)


def test_a_snapshot_has_all_alerts_and_no_keys() -> None:
    alerts = tuple(made_alert(number) for number in range(30))
    text = once(made_view(alerts=alerts))
    assert text.count("steps take 31 %") == 30
    assert "q quit" not in text
    assert "> " not in text
