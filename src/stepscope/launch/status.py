"""The live status line at the bottom of the terminal, apart from what the program prints.

The last row is taken out of the terminal's scroll region, as apt does: the program's output scrolls
above it, undisturbed. Each change is one write, with the cursor saved before and restored after.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

from stepscope.printer import in_one_line

__all__ = ["NoStatusLine", "StatusLine", "open_status_line"]

_SAVE: Final = "\0337"
_RESTORE: Final = "\0338"
_DOWN: Final = "\033D"  # as a line feed, but the column stays
_CLEAR_ROW: Final = "\033[2K"
_CLEAR_BELOW: Final = "\033[J"
_MIN_ROWS: Final = 4


class NoStatusLine:
    """Where there is no terminal to write to, or nobody wants it."""

    is_shown = False  # whether it is worth making a text

    def show(self, text: str) -> None:
        pass

    def resize(self) -> None:
        pass

    def close(self) -> None:
        pass


class StatusLine(NoStatusLine):
    """Owns the last row from the first `show` until `close`; may be shown again after that."""

    is_shown = True

    def __init__(self, file: int) -> None:
        self._file = file
        self._rows = 0  # size for which the scroll region is set; 0: it is not
        self._columns = 0
        self._text = ""

    def show(self, text: str) -> None:
        if not self._in_foreground():
            return
        self._text = text
        if not self._rows and not self._reserve():
            return
        self._write(f"{_SAVE}{_row(self._rows)}{_CLEAR_ROW}{self._shown()}{_RESTORE}")

    def resize(self) -> None:
        """The terminal has another size: the row moves along."""
        if self._rows:
            self.close()
            self.show(self._text)

    def close(self) -> None:
        """Gives the row back. Safe to call at any time."""
        if not self._rows:
            return
        rows, self._rows = self._rows, 0
        # Setting the region moves the cursor home, hence the saving around it.
        self._write(f"{_SAVE}\033[r{_row(rows)}{_CLEAR_ROW}{_RESTORE}{_CLEAR_BELOW}")

    def _reserve(self) -> bool:
        try:
            columns, rows = os.get_terminal_size(self._file)
        except OSError:
            return False
        if rows < _MIN_ROWS:
            return False
        self._rows, self._columns = rows, columns
        # One row down scrolls if the cursor stands in the row that we take; then back up.
        self._write(f"{_DOWN}{_SAVE}\033[1;{rows - 1}r{_RESTORE}\033[1A")
        return True

    def _shown(self) -> str:
        shown = in_one_line(self._text)[: max(0, self._columns - 1)]
        return f"\033[7m{shown}\033[0m"

    def _in_foreground(self) -> bool:
        """A background job must not draw on the terminal that someone else works on."""
        try:
            return os.tcgetpgrp(self._file) == os.getpgrp()
        except OSError:
            return False

    def _write(self, text: str) -> None:
        try:
            os.write(self._file, text.encode("utf-8", "replace"))
        except OSError:
            pass  # the terminal is gone; the program may not need it


def _row(number: int) -> str:
    return f"\033[{number};1H"


def open_status_line(
    file: int, environment: Mapping[str, str], *, wanted: bool = True
) -> NoStatusLine:
    """A status line if `file` is a terminal that can have one."""
    if wanted and environment.get("TERM", "dumb") not in ("", "dumb") and os.isatty(file):
        return StatusLine(file)
    return NoStatusLine()
