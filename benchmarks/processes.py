"""Running a program under a tool, from the outside: how long, how much CPU, and what went wrong."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

__all__ = ["Execution", "UnavailableError", "execute", "script"]


class UnavailableError(Exception):
    """The tool could not run here; the text says why."""


class Execution(NamedTuple):
    """One run of a command. `problem`: what went wrong; empty: nothing did."""

    began: float  # monotonic, in seconds
    ended: float
    cpu_s: float  # of the whole process tree
    problem: str = ""


def script(name: str) -> str:
    """A command of the environment that this Python belongs to."""
    return str(Path(sys.executable).with_name(name))


def execute(
    command: list[str],
    folder: Path,
    timeout_s: float,
    environment: Mapping[str, str] | None = None,
) -> Execution:
    """Run it in a folder, silent; kill it when it takes too long, or when we are interrupted.

    environment: ours without our own settings, unless told.
    """
    if environment is None:
        environment = {k: v for k, v in os.environ.items() if not k.startswith("STEPSCOPE_")}
    log = folder / "stderr"
    began = time.monotonic()
    try:
        with log.open("wb") as stderr:
            process = subprocess.Popen(
                command,
                cwd=folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=stderr,
                start_new_session=True,
            )
    except OSError as error:
        return Execution(began, began, 0.0, f"cannot be started: {error.strerror}")
    timer = threading.Timer(timeout_s, os.killpg, (process.pid, signal.SIGKILL))
    try:
        timer.start()
        _, status, usage = os.wait4(process.pid, 0)
    except BaseException:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        raise
    finally:
        timer.cancel()
    ended = time.monotonic()
    process.returncode = os.waitstatus_to_exitcode(status)
    problem = ""
    if process.returncode == -signal.SIGKILL and ended - began >= timeout_s:
        problem = f"hangs: killed after {timeout_s:g} s"
    elif process.returncode:
        lines = log.read_text(errors="replace").strip().splitlines() or ["no message"]
        problem = f"exit code {process.returncode}: {lines[-1]}"
    return Execution(began, ended, usage.ru_utime + usage.ru_stime, problem)
