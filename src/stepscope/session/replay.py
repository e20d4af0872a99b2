"""Runs operators of a program again, in a process of its own, when the program is over."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from typing import Any, Final

from stepscope.config import Replay

__all__ = ["allowance_s", "run_again"]

MOST_SHARE: Final = 0.05  # of the run's wall clock, the start of the process included
MOST_S: Final = 3.0
# The process has to import torch first. At least half of the time is for measuring.
MOST_START_SHARE: Final = 0.5
FULL_S: Final = 60.0  # where the user asked for all of it
_MARGIN_S: Final = 0.2  # the process ends by itself that long before it is killed
_POLL_S: Final = 0.05
_SKIPPED_BY: Final = frozenset((signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT))
# Memory that is handed back and taken again costs page faults, as it happens: not what is compared.
_KEEP_MEMORY = dict.fromkeys(("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_"), str(1 << 40))


def allowance_s(mode: Replay, run_s: float, torch_import_s: float | None) -> float:
    """How long running operators again may take; 0.0: it is not worth starting.

    torch_import_s: what the program needed for it; None: unknown, and then only `full` starts.
    """
    if mode is Replay.FULL:
        return FULL_S
    most_s = min(MOST_SHARE * run_s, MOST_S)
    if mode is Replay.OFF or torch_import_s is None or torch_import_s > MOST_START_SHARE * most_s:
        return 0.0
    return most_s


def run_again(request: Mapping[str, Any], limit_s: float, *, complete: bool) -> dict[str, Any]:
    """{alternative: its figures}, those that were measured in time. Ctrl-C ends it early.

    complete: every operator is measured, however long that takes, up to the limit.
    """
    until_s = time.monotonic() + limit_s
    asked = {**request, "until_s": until_s - _MARGIN_S, "complete": complete}
    with tempfile.TemporaryFile() as told, tempfile.TemporaryFile() as found:
        told.write(json.dumps(asked).encode())
        told.seek(0)
        try:
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", "stepscope.collect.replay"],
                stdin=told,
                stdout=found,
                stderr=subprocess.DEVNULL,
                env=os.environ | _KEEP_MEMORY,
                start_new_session=True,  # Ctrl-C is for us: we end it
            )
        except OSError:
            return {}
        try:
            _wait(process, until_s)
        finally:
            process.kill()
            process.wait()
        found.seek(0)
        return _measured(found.read())


def _wait(process: subprocess.Popen[bytes], until_s: float) -> None:
    """Until it has ended, the time is over, or the user asks to skip it. The launcher has these
    signals blocked (launch/process.py), so they are asked for."""
    while process.poll() is None and time.monotonic() < until_s:
        info = signal.sigtimedwait(_SKIPPED_BY, _POLL_S)
        if info is not None:
            return


def _measured(lines: bytes) -> dict[str, Any]:
    """One alternative a line. The last line may be cut off."""
    found: dict[str, Any] = {}
    for line in lines.splitlines():
        try:
            one = json.loads(line)
        except ValueError:
            break
        if isinstance(one, dict):
            found |= one
    return found
