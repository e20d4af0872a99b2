from __future__ import annotations

import fcntl
import os
import pty
import select
import struct
import termios
from collections.abc import Iterator

import pytest

from stepscope.launch.status import NoStatusLine, StatusLine, open_status_line


class Terminal:
    """The two ends of a terminal of 24 rows and 80 columns."""

    def __init__(self) -> None:
        self.ours, self.theirs = pty.openpty()
        self.resize(24, 80)

    def resize(self, rows: int, columns: int) -> None:
        fcntl.ioctl(self.theirs, termios.TIOCSWINSZ, struct.pack("4H", rows, columns, 0, 0))

    def written(self) -> str:
        """Everything that came, once nothing more does: a terminal passes on in its own time."""
        parts = []
        while select.select([self.ours], [], [], 0.1)[0]:
            parts.append(os.read(self.ours, 65536))
        return b"".join(parts).decode()


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[Terminal]:
    terminal = Terminal()
    monkeypatch.setattr(os, "tcgetpgrp", lambda file: os.getpgrp())
    yield terminal
    os.close(terminal.ours)
    os.close(terminal.theirs)


def test_the_last_row_is_taken_out_of_the_scroll_region(terminal: Terminal) -> None:
    line = StatusLine(terminal.theirs)
    line.show("12 steps")
    written = terminal.written()
    assert "\033[1;23r" in written
    assert "\033[24;1H" in written
    assert "12 steps" in written
    assert written.count("\0337") == written.count("\0338")


def test_closing_gives_the_whole_screen_back(terminal: Terminal) -> None:
    line = StatusLine(terminal.theirs)
    line.show("12 steps")
    terminal.written()
    line.close()
    assert "\033[r" in terminal.written()
    line.close()
    assert terminal.written() == ""


def test_the_line_moves_when_the_terminal_is_resized(terminal: Terminal) -> None:
    line = StatusLine(terminal.theirs)
    line.resize()
    assert terminal.written() == ""
    line.show("12 steps")
    terminal.written()
    terminal.resize(40, 20)
    line.resize()
    written = terminal.written()
    assert "\033[1;39r" in written
    assert "12 steps" in written


def test_a_long_text_is_cut_and_control_characters_are_no_commands(terminal: Terminal) -> None:
    line = StatusLine(terminal.theirs)
    line.show("x" * 500 + "\033[2J")
    written = terminal.written()
    assert "x" * 79 in written
    assert "x" * 80 not in written
    line.show("\033[2Jname")
    assert "\033[2J" not in terminal.written()


def test_a_background_job_does_not_draw(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "tcgetpgrp", lambda file: os.getpgrp() + 1)
    StatusLine(terminal.theirs).show("12 steps")
    assert terminal.written() == ""


def test_a_tiny_terminal_has_no_line(terminal: Terminal) -> None:
    terminal.resize(2, 80)
    StatusLine(terminal.theirs).show("12 steps")
    assert terminal.written() == ""


def test_a_terminal_that_is_gone_is_no_error() -> None:
    line = StatusLine(-1)
    line.show("12 steps")
    line.close()


def test_there_is_a_line_only_where_it_can_be(terminal: Terminal) -> None:
    reader, writer = os.pipe()
    fine = {"TERM": "xterm"}
    assert isinstance(open_status_line(terminal.theirs, fine), StatusLine)
    for line in (
        open_status_line(writer, fine),
        open_status_line(terminal.theirs, fine, wanted=False),
        open_status_line(terminal.theirs, {"TERM": "dumb"}),
        open_status_line(terminal.theirs, {}),
    ):
        assert type(line) is NoStatusLine
        line.show("x")
        line.resize()
        line.close()
    os.close(reader)
    os.close(writer)
