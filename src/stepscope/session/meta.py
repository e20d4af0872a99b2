"""What meta.json says about a run."""

from __future__ import annotations

import os
import platform
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from stepscope import __version__
from stepscope.config import Settings
from stepscope.launch.command import Command
from stepscope.redact import redact

__all__ = ["about_run", "describe_end", "describe_process", "describe_start"]

_IN_SUMMARY = (
    "name",
    "command",
    "cwd",
    "started_unix",
    "ended_unix",
    "exit_code",
    "settings",
    "host",
    "git",
    "python",
    "stepscope",
)


def describe_start(name: str, command: Command, settings: Settings, status: Path) -> dict[str, Any]:
    """Known when the program starts. Without an end it is a run that goes on or was killed."""
    return _describe(name, time.time()) | {
        "command": redact(command.argv),
        "settings": {"level": settings.level.value, "memory": list(settings.memory)},
        "watch_file": settings.watch or None,
        "launcher_pid": os.getpid(),
        "status_folder": str(status),
    }


def describe_process(name: str, started_unix: float) -> dict[str, Any]:
    """Of a program that profiled itself."""
    return _describe(name, started_unix) | {
        "command": redact([sys.executable, *getattr(sys, "argv", [])]),
        "settings": {},
        "status_folder": None,
    }


def _describe(name: str, started_unix: float) -> dict[str, Any]:
    system = os.uname()
    return {
        "name": name,
        "stepscope": __version__,
        "python": platform.python_version(),
        "executable": sys.executable,
        "host": {
            "name": system.nodename,
            "system": f"{system.sysname} {system.release}",
            "machine": system.machine,
            "cpus": len(os.sched_getaffinity(0)),
        },
        "cwd": str(Path.cwd()),
        "clock": {"monotonic_ns": time.monotonic_ns(), "unix_ns": time.time_ns()},
        "started_unix": started_unix,
        "ended_unix": None,
        "exit_code": None,
    }


def describe_end(
    exit_code: int | None, git: dict[str, Any], losses: dict[str, Any]
) -> dict[str, Any]:
    """`exit_code` -n: ended by signal n."""
    return {
        "ended_unix": time.time(),
        "exit_code": exit_code,
        "git": git,
        "losses": losses,
        "status_folder": None,
    }


def about_run(path: Path, meta: Mapping[str, Any]) -> dict[str, Any]:
    """What the summary says about its run."""
    return {"path": str(path), **{key: meta[key] for key in _IN_SUMMARY if key in meta}}
