from __future__ import annotations

import os
import pty
import termios
from collections.abc import Iterator
from pathlib import Path

import pytest

from stepscope.notify.bell import Bell
from stepscope.notify.sink import SinkError
from tests.unit.notify.alerts_by_hand import firing


@pytest.fixture
def terminal() -> Iterator[tuple[int, int, str]]:
    outside, inside = pty.openpty()
    yield outside, inside, os.ttyname(inside)
    os.close(outside)
    os.close(inside)


def test_the_terminal_rings_and_shows_a_note(
    terminal: tuple[int, int, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    outside, _, path = terminal
    monkeypatch.setenv("TERM", "xterm-256color")
    Bell(desktop=False, tty=path).send(firing(run="r\x1b]0;evil\a"))
    assert os.read(outside, 1000).decode() == (
        "\x1b]9;steps take 30 % longer <since> 12 & on at train.py:7 (rank 0, 3) (run r ]0;evil )"
        "\x1b\\\a"
    )


@pytest.mark.parametrize(
    ("kind", "begins"), [("linux", "\a"), ("foot", "\x1b]777;notify;stepscope;")]
)
def test_each_terminal_gets_what_it_understands(
    terminal: tuple[int, int, str], monkeypatch: pytest.MonkeyPatch, kind: str, begins: str
) -> None:
    outside, _, path = terminal
    monkeypatch.setenv("TERM", kind)
    Bell(desktop=False, tty=path).send(firing())
    assert os.read(outside, 1000).decode().startswith(begins)


def test_a_terminal_that_would_stop_us_is_left_alone(terminal: tuple[int, int, str]) -> None:
    _, inside, path = terminal
    flags = termios.tcgetattr(inside)
    flags[3] |= termios.TOSTOP
    termios.tcsetattr(inside, termios.TCSANOW, flags)
    with pytest.raises(SinkError):
        Bell(desktop=False, tty=path).send(firing())


@pytest.mark.parametrize("path", ["no-such-terminal", os.devnull])
def test_without_anybody_to_hear_it_does_not_wait(tmp_path: Path, path: str) -> None:
    with pytest.raises(SinkError) as caught:
        Bell(desktop=False, tty=str(tmp_path / path)).send(firing())
    assert caught.value.permanent


def test_the_desktop_is_told_where_there_is_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "notify-send"
    program.write_text(f'#!/bin/sh\nprintf "%s|" "$@" > {tmp_path}/told\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setenv("DISPLAY", ":0")
    Bell(terminal=False).send(firing(run="-r"))
    told = (tmp_path / "told").read_text()
    assert told.startswith("--app-name=stepscope|--urgency=critical|--|stepscope|steps take 30 %")
    monkeypatch.delenv("DISPLAY")
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    with pytest.raises(SinkError):
        Bell(terminal=False).send(firing())
