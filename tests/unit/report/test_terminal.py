from __future__ import annotations

import os
import pty
import select
import signal
import struct
import termios
from collections.abc import Iterator
from fcntl import ioctl
from typing import NamedTuple

import pytest

from stepscope.report.terminal import Terminal, keys_in

PATIENCE_S = 30.0


class Pty(NamedTuple):
    """A terminal and who sits in front of it."""

    person: int
    program: int

    def seen(self, until: str) -> str:
        """What was written, up to and with that."""
        text = b""
        while until.encode() not in text:
            assert select.select([self.person], [], [], PATIENCE_S)[0], text
            text += os.read(self.person, 65536)
        return text.decode()


@pytest.fixture
def both() -> Iterator[Pty]:
    person, program = pty.openpty()
    ioctl(program, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    yield Pty(person, program)
    os.close(person)
    os.close(program)


@pytest.mark.parametrize(
    ("typed", "keys"),
    [
        (b"q", ["q"]),
        (b"\x1b[A\x1b[B", ["up", "down"]),
        (b"\x1bOA\x1bOB", ["up", "down"]),
        (b"\x1b", ["escape"]),
        (b"\x7f", ["escape"]),
        (b"\r\n ", ["enter", "enter", "space"]),
        (b"\x1b[5~\x1b[6~", ["page up", "page down"]),
        (b"\x1b[1;5D\x1b[200~\x1b[M", []),  # other keys, and what some terminals tell by themselves
        ("é€".encode(), []),
        (b"\x00\x01", []),
        (b"\x03", ["interrupt"]),
    ],
)
def test_keys_are_told_from_what_terminals_send(typed: bytes, keys: list[str]) -> None:
    assert list(keys_in(typed)) == keys


def test_the_terminal_is_left_as_it_was_found(both: Pty) -> None:
    before = termios.tcgetattr(both.program)
    handlers = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGWINCH)]
    with Terminal(both.program, both.program, "utf-8") as terminal:
        assert termios.tcgetattr(both.program) != before
        terminal.draw(["hello"])
    assert termios.tcgetattr(both.program) == before
    assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGWINCH)] == handlers
    shown = both.seen("\033[?1049l")
    assert shown.startswith("\033[?1049h\033[?25l")
    assert shown.endswith("\033[?7h\033[?25h\033[?1049l")
    assert "hello" in shown


def test_it_is_left_so_after_a_crash_too(both: Pty) -> None:
    before = termios.tcgetattr(both.program)
    with (
        pytest.raises(RuntimeError, match="oh"),
        Terminal(both.program, both.program, "utf-8"),
    ):
        raise RuntimeError("oh")
    assert termios.tcgetattr(both.program) == before
    assert both.seen("\033[?1049l").endswith("\033[?1049l")


def test_a_file_that_is_no_terminal_is_refused_before_anything_is_changed() -> None:
    read, write = os.pipe()
    handler = signal.getsignal(signal.SIGTERM)
    with pytest.raises(termios.error), Terminal(read, write, "utf-8"):
        pass
    assert signal.getsignal(signal.SIGTERM) is handler
    os.close(read)
    os.close(write)


def test_rows_that_did_not_change_are_not_written_again(both: Pty) -> None:
    with Terminal(both.program, both.program, "utf-8") as terminal:
        terminal.draw(["one", "two", "three"])
        both.seen("three")
        terminal.draw(["one", "2", "three"])
        shown = both.seen("2\033[0m")
        assert "\033[2;1H" in shown
        assert "one" not in shown
        assert "three" not in shown
        terminal.draw(["one"])
        assert "\033[2;1H\033[0m\033[J" in both.seen("\033[J")


def test_what_the_encoding_lacks_is_replaced(both: Pty) -> None:
    with Terminal(both.program, both.program, "ascii") as terminal:
        terminal.draw(["→ done"])
        assert "? done" in both.seen("done")


def test_keys_come_as_they_are_pressed(both: Pty) -> None:
    with Terminal(both.program, both.program, "utf-8") as terminal:
        os.write(both.person, b"a\x1b[B")
        assert terminal.wait(PATIENCE_S) == ["a", "down"]
        assert terminal.wait(0.0) == []


@pytest.mark.parametrize(
    ("number", "told"),
    [
        (signal.SIGINT, "interrupt"),
        (signal.SIGTERM, "terminate"),
        (signal.SIGHUP, "hangup"),
        (signal.SIGWINCH, "resize"),
    ],
)
def test_signals_are_told_like_keys(both: Pty, number: signal.Signals, told: str) -> None:
    with Terminal(both.program, both.program, "utf-8") as terminal:
        os.kill(os.getpid(), number)
        assert terminal.wait(PATIENCE_S) == [told]


def test_a_size_that_changed_is_seen_and_all_is_drawn_again(both: Pty) -> None:
    with Terminal(both.program, both.program, "utf-8") as terminal:
        terminal.draw(["one"])
        assert terminal.size() == (80, 24)
        ioctl(both.program, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
        os.kill(os.getpid(), signal.SIGWINCH)
        assert terminal.wait(PATIENCE_S) == ["resize"]
        assert terminal.size() == (120, 40)
        both.seen("one")
        terminal.draw(["one"])
        assert "one" in both.seen("one")
