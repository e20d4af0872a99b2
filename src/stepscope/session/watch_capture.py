"""Closer looks that are asked for from the live view."""

from __future__ import annotations

import time
from pathlib import Path

from stepscope.errors import FormatError, StepscopeError
from stepscope.model.capture_request import CaptureRequest
from stepscope.session.capture_target import find_target
from stepscope.session.capturing import ANSWER_S
from stepscope.store.captures import ask_capture, capture_path, read_capture

__all__ = ["Looks"]


class Looks:
    """Of one run: `ask` when a key says so, `news` once in a while. Both give a sentence."""

    def __init__(self, run: Path) -> None:
        self._run = run
        self._number: int | None = None  # of the one that is waited for
        self._until = 0.0

    def can_ask(self) -> bool:
        try:
            find_target(str(self._run))
        except StepscopeError:
            return False
        return True

    def ask(self, alert: str = "") -> str:
        """alert: id of the one that it is for."""
        if self._number is not None:
            return f"Closer look {self._number} is still under way."
        request = CaptureRequest(
            alert=alert, expires_ns=time.monotonic_ns() + round(ANSWER_S * 1e9)
        )
        try:
            self._number = ask_capture(find_target(str(self._run)).status_folder, request)
        except (StepscopeError, OSError) as error:
            return f"No closer look: {error}"
        self._until = time.monotonic() + ANSWER_S + request.seconds + ANSWER_S
        return f"Asked for closer look {self._number}: the next {request.steps} steps."

    def news(self) -> str:
        """What became of it; "" while there is nothing to say."""
        if self._number is None:
            return ""
        number = self._number
        try:
            found = read_capture(self._run, number)
        except (FormatError, OSError) as error:
            self._number = None
            return f"Closer look {number} cannot be read: {error}"
        if found is not None:
            self._number = None
            if not found.details.ranks:
                return f"Closer look {number}: {' '.join(found.details.notes) or 'nothing seen'}"
            return f"Closer look {number} is kept in {self._run.name}/{capture_path(number)}"
        if time.monotonic() > self._until:
            self._number = None
            return f"Closer look {number}: the program did not answer."
        return ""
