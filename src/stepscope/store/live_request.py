"""Asking a launcher for live.json. Apart from that file, which takes some ms to be loaded.

Who wants to see touches `live.request`; a run that nobody looks at pays for one stat a second.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from stepscope.descriptor import open_own

__all__ = ["REQUEST_S", "is_requested", "request"]

REQUEST_S: Final = 10.0  # a request is good for that long
_REQUEST: Final = "live.request"


def is_requested(run: Path, now_unix: float) -> bool:
    """Whether somebody asked within the last 10 seconds."""
    try:
        asked_unix = os.stat(run / _REQUEST).st_mtime  # noqa: PTH116 - every second of every run
    except OSError:
        return False
    # After a jump of the clock a request may lie in the future: it must not hold for ever.
    return abs(now_unix - asked_unix) < REQUEST_S


def request(run: Path, now_unix: float) -> None:
    """Asks for live.json. OSError: the run folder cannot be written."""
    file = open_own(run / _REQUEST, os.O_WRONLY | os.O_CREAT)
    try:
        os.utime(file, (now_unix, now_unix))  # our clock, where the folder lies on another machine
    finally:
        os.close(file)
