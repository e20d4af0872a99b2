"""Alerts to whoever sits in front of it: the terminal's bell, and the desktop."""

from __future__ import annotations

import os
import shutil
import subprocess
import termios
from typing import Final

from stepscope.model.alert import Alert
from stepscope.notify.levels import Level, level_of
from stepscope.notify.options import Options
from stepscope.notify.sink import SinkContext, SinkError
from stepscope.notify.words import headline

__all__ = ["Bell", "make"]

_TERMINAL: Final = "/dev/tty"
_PROGRAM: Final = "notify-send"
_TIMEOUT_S: Final = 5.0
_LONGEST: Final = 200
_URGENCY: Final = {Level.INFO: "low", Level.WARNING: "normal", Level.ERROR: "critical"}
_WITHOUT_NOTES: Final = ("", "dumb", "linux")  # terminals that would print them
_WITH_TITLES: Final = ("rxvt", "foot")


def make(options: Options, context: SinkContext) -> Bell:
    return Bell(options.flag("terminal", True), options.flag("desktop", True))


class Bell:
    """Rings where there is somebody to hear it. Later is too late: without a terminal and a
    desktop, an alert is refused, and does not wait."""

    def __init__(self, terminal: bool = True, desktop: bool = True, tty: str = _TERMINAL) -> None:
        self._terminal, self._desktop, self._tty = terminal, desktop, tty

    @property
    def name(self) -> str:
        return "bell"

    def send(self, alert: Alert) -> None:
        text = headline(alert)[:_LONGEST]
        rang = [
            self._terminal and _ring(self._tty, text),
            self._desktop and _show(text, _URGENCY[level_of(alert)]),
        ]
        if not any(rang):
            raise SinkError("There is no terminal and no desktop to ring at.", permanent=True)

    def close(self) -> None:
        """Nothing stays open."""


def _ring(path: str, text: str) -> bool:
    try:
        # A terminal that was stopped with Ctrl-S must not stop us.
        descriptor = os.open(path, os.O_WRONLY | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        if not _may_write(descriptor):
            return False
        return os.write(descriptor, _note(text) + b"\a") > 0
    except (OSError, termios.error):
        return False
    finally:
        os.close(descriptor)


def _may_write(descriptor: int) -> bool:
    """In the background, a terminal set to `tostop` would stop the whole program."""
    local_flags = termios.tcgetattr(descriptor)[3]
    return not local_flags & termios.TOSTOP or os.tcgetpgrp(descriptor) == os.getpgrp()


def _note(text: str) -> bytes:
    """A note on the desktop of whoever looks at this terminal, also over ssh, where it can."""
    terminal = os.environ.get("TERM", "")
    if terminal in _WITHOUT_NOTES:
        return b""
    what = f"777;notify;stepscope;{text}" if terminal.startswith(_WITH_TITLES) else f"9;{text}"
    return f"\x1b]{what}\x1b\\".encode("utf-8", "replace")


def _show(text: str, urgency: str) -> bool:
    program = shutil.which(_PROGRAM)
    if program is None or not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        return False
    command = [program, "--app-name=stepscope", f"--urgency={urgency}", "--", "stepscope", text]
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return False
    return done.returncode == 0
