"""`stepscope capture`: asks a running program for a closer look, waits for it and shows it."""

from __future__ import annotations

import json as plain_json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from stepscope.errors import StepscopeError, UsageError
from stepscope.model.capture import Capture
from stepscope.model.capture_request import CaptureRequest
from stepscope.printer import show
from stepscope.session.capture_progress import show_progress
from stepscope.session.capture_target import Target, find_target, is_alive
from stepscope.session.capturing import ANSWER_S
from stepscope.store.captures import ask_capture, capture_path, read_capture
from stepscope.store.files import read_json

__all__ = ["CaptureOptions", "capture"]

_POLL_S = 0.2
_FOLDED_S = 30.0  # for the launcher, which looks once a second


class CaptureOptions(NamedTuple):
    """What the user asked for. wanted: a run, or the id of one of its processes."""

    wanted: str
    steps: int
    seconds: float
    memory: bool = False
    operators: bool = False
    json: bool = False


def capture(options: CaptureOptions) -> None:
    """On stdout. StepscopeError: there was nobody to ask, or nobody answered."""
    if options.steps < 1:
        raise UsageError("--steps is to be 1 or more.")
    target = find_target(options.wanted)
    request = CaptureRequest(
        steps=options.steps,
        seconds=options.seconds,
        operators=options.operators,
        memory=options.memory,
        expires_ns=time.monotonic_ns() + round(ANSWER_S * 1e9),
    )
    request = CaptureRequest.from_json(request.to_json())  # within bounds
    try:
        number = ask_capture(target.status_folder, request)
    except OSError as error:
        raise StepscopeError(
            f"{target.run.name} cannot be asked ({error.strerror}): its status folder"
            f" {target.status_folder} cannot be written."
        ) from error
    with show_progress(target, request, wanted=not options.json) as tick:
        found = _wait(target, number, request, tick)
    _show(found, target, number, json=options.json)


def _wait(
    target: Target, number: int, request: CaptureRequest, tick: Callable[[], None]
) -> Capture:
    until = time.monotonic() + ANSWER_S + request.seconds + _FOLDED_S
    while True:
        # Before the file: the launcher writes what there is when the program ends.
        is_over = not is_alive(target.launcher_pid)
        found = read_capture(target.run, number)
        if found is not None:
            return found
        if is_over:
            raise StepscopeError(f"{target.run.name} ended before the capture did.")
        if time.monotonic() > until:
            raise StepscopeError(
                f"{target.run.name} did not answer within {ANSWER_S + request.seconds:.0f} s."
            )
        tick()
        time.sleep(_POLL_S)


def _show(found: Capture, target: Target, number: int, *, json: bool) -> None:
    path = target.run / capture_path(number)
    if json:
        show(plain_json.dumps(read_json(path)))
        return
    if not found.details.ranks:
        raise StepscopeError(" ".join(found.details.notes) or "Nothing was captured.")
    from stepscope.report.capture import render_capture
    from stepscope.report.console import console_on

    render_capture(found, console_on(sys.stdout))
    show(f"\nkept in {_short(path)}")


def _short(path: Path) -> str:
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)
