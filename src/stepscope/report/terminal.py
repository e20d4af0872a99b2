"""A terminal as a whole screen: entered and left cleanly, keys read one by one.

Only the rows that changed are written, each at its own place: little goes over a slow line, and a
character that a terminal takes for wider than it is moves nothing else.
"""

from __future__ import annotations

import os
import re
import select
import signal
import termios
import tty
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Any, Final

__all__ = ["Terminal", "keys_in"]

# Another screen, no cursor, nothing runs over the right edge; and back.
_ENTER: Final = "\033[?1049h\033[?25l\033[?7l\033[2J"
_LEAVE: Final = "\033[?7h\033[?25h\033[?1049l"
_ESCAPE_S: Final = 0.05  # the rest of a key's sequence follows at once
_SIGNALS: Final = {
    signal.SIGWINCH: "resize",
    signal.SIGCONT: "resize",  # whoever had the terminal meanwhile has drawn on it
    signal.SIGINT: "interrupt",
    signal.SIGTERM: "terminate",
    signal.SIGHUP: "hangup",
    signal.SIGTSTP: "stop",
}
_SEQUENCE: Final = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|O.)|\x1b|[^\x1b]", re.DOTALL)
_KEYS: Final = {
    b"\x1b[A": "up", b"\x1bOA": "up", b"\x1b[B": "down", b"\x1bOB": "down",
    b"\x1b[5~": "page up", b"\x1b[6~": "page down", b"\x1b": "escape", b"\r": "enter",
    b"\n": "enter", b" ": "space", b"\x7f": "escape", b"\x08": "escape", b"\x03": "interrupt",
}  # fmt: skip


def keys_in(typed: bytes) -> Iterator[str]:
    """The keys that were pressed, by name; what is no key of ours comes as nothing.

    >>> list(keys_in(b"a\\x1b[A\\x1b[1;5C\\rq"))
    ['a', 'up', 'enter', 'q']
    """
    for match in _SEQUENCE.finditer(typed):
        pressed = match[0]
        if pressed in _KEYS:
            yield _KEYS[pressed]
        elif len(pressed) == 1 and 32 < pressed[0] < 127:
            yield pressed.decode("ascii")


class Terminal:
    """Within `with`, the screen is ours. OSError and termios.error: the terminal has gone."""

    def __init__(self, keys: int, screen: int, encoding: str) -> None:
        """keys, screen: open files of the terminal."""
        self._keys, self._screen, self._encoding = keys, screen, encoding
        self._shown: list[str] = []
        self._before: list[Any] = []
        self._handlers: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Terminal:
        self._before = termios.tcgetattr(self._keys)
        self._wake, self._woken = os.pipe()
        for end in (self._wake, self._woken):
            os.set_blocking(end, False)
        self._wakeup_before = signal.set_wakeup_fd(self._woken, warn_on_full_buffer=False)
        for number in _SIGNALS:
            self._handlers[number] = signal.signal(number, _nothing)
        try:
            self._take()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            self._give_back()
        except (OSError, termios.error):
            pass  # the terminal has gone: there is nothing to clean
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._wakeup_before)
        os.close(self._wake)
        os.close(self._woken)

    def size(self) -> os.terminal_size:
        return os.get_terminal_size(self._screen)

    def draw(self, rows: Sequence[str]) -> None:
        """The screen from the top; rows that are as they were are not written again."""
        shown = self._shown
        parts = [
            f"\033[{number + 1};1H\033[0m\033[2K{row}\033[0m"
            for number, row in enumerate(rows)
            if number >= len(shown) or shown[number] != row
        ]
        if len(rows) < len(shown):
            parts.append(f"\033[{len(rows) + 1};1H\033[0m\033[J")
        self._shown = list(rows)
        if parts:
            self._write("".join(parts))

    def wait(self, timeout_s: float) -> list[str]:
        """Keys and "resize", "interrupt", "terminate", "hangup"; none: the time is over."""
        ready, _, _ = select.select([self._keys, self._wake], [], [], max(0.0, timeout_s))
        found: list[str] = []
        if self._wake in ready:
            found += self._signals()
        if self._keys in ready:
            typed = os.read(self._keys, 1024)
            if typed.endswith(b"\x1b") and select.select([self._keys], [], [], _ESCAPE_S)[0]:
                typed += os.read(self._keys, 1024)
            found += list(keys_in(typed)) if typed else ["hangup"]
        return found

    def _signals(self) -> Iterator[str]:
        for number in os.read(self._wake, 4096):
            name = _SIGNALS.get(signal.Signals(number))
            if name == "stop":
                self._stop()
                name = "resize"
            if name == "resize":
                self._shown = []
                self._write("\033[2J")
            if name is not None:
                yield name

    def _stop(self) -> None:
        """Ctrl-Z: the shell gets its terminal as it was, until we are continued."""
        self._give_back()
        # Where no shell is there to continue us, the kernel passes over this one.
        signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTSTP)
        signal.signal(signal.SIGTSTP, _nothing)
        self._take()

    def _take(self) -> None:
        tty.setcbreak(self._keys)
        self._shown = []
        self._write(_ENTER)

    def _give_back(self) -> None:
        self._write(_LEAVE)
        termios.tcsetattr(self._keys, termios.TCSADRAIN, self._before)

    def _write(self, text: str) -> None:
        left = text.encode(self._encoding, "replace")
        while left:
            left = left[os.write(self._screen, left) :]


def _nothing(number: int, frame: Any) -> None:
    """That we are woken is enough."""
