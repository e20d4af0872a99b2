"""The page of memory by which a running program is asked for captures (model/capture_request.py).

Whoever comes first makes it: the launcher, or the first process of the program that wakes. Asking
whether there is something new is one read of memory.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Protocol

from stepscope.descriptor import map_file, open_own
from stepscope.model.capture_request import (
    CONTROL,
    CONTROL_BYTES,
    MOST_REQUEST_BYTES,
    CaptureRequest,
    request_name,
)

__all__ = ["Asked", "Control", "open_control"]


class Asked(Protocol):
    """`asked[0]`: the number of the newest request; 0: there was none."""

    def __getitem__(self, place: int, /) -> int: ...


class Control:
    """Where requests come from."""

    def __init__(self, folder: Path, asked: Asked) -> None:
        self._folder = folder
        self.asked = asked

    def read(self, number: int) -> CaptureRequest:
        """ValueError or OSError: there is none that can be used."""
        with (self._folder / request_name(number)).open("rb") as file:
            return CaptureRequest.from_json(file.read(MOST_REQUEST_BYTES))


def open_control(folder: Path) -> Control:
    """The page in this folder. OSError: it cannot be had there."""
    file = open_own(folder / CONTROL, os.O_RDWR | os.O_CREAT)
    try:
        # Not only its size: a page that has no memory yet, read when there is none left, would end
        # the program. A page that is there is left as it is.
        os.posix_fallocate(file, 0, CONTROL_BYTES)
        page = map_file(file, CONTROL_BYTES, writable=False)
    finally:
        os.close(file)
    return Control(folder, page.cast("Q"))
