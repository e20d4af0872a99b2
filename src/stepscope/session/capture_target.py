"""Which running program is meant: a run, or a process id."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from stepscope.config import RUNS_FOLDER
from stepscope.errors import RunNotFoundError, StepscopeError
from stepscope.store.captures import said_run
from stepscope.store.rundir import find_run, read_meta
from stepscope.store.status_folders import status_folder_of, status_folders

__all__ = ["Target", "find_target", "is_alive"]

_START = "start it with: stepscope run train.py"


class Target(NamedTuple):
    """A run that goes on. status_folder: where its processes are asked."""

    run: Path
    status_folder: Path
    launcher_pid: int


def find_target(wanted: str) -> Target:
    """StepscopeError says why there is nobody to ask."""
    is_number = wanted.isascii() and wanted.isdigit()
    if is_number and not Path(wanted).is_dir() and not Path(RUNS_FOLDER, wanted).is_dir():
        return _target_of(_run_of_process(int(wanted)))
    return _target_of(find_run(Path(RUNS_FOLDER), wanted))


def _target_of(run: Path) -> Target:
    meta = read_meta(run)
    if meta.get("ended_unix") is not None:
        raise StepscopeError(f"{run.name} is over: stepscope report {run} tells about it.")
    folder, launcher = meta.get("status_folder"), meta.get("launcher_pid")
    if not folder or launcher is None:
        raise StepscopeError(
            f"{run.name} was not started by stepscope run, so it cannot be asked: {_START}."
        )
    name = meta.get("host", {}).get("name")
    here = os.uname().nodename
    if name != here:
        raise StepscopeError(f"{run.name} runs on {name}, not on {here}: ask for it there.")
    if not is_alive(launcher):
        raise StepscopeError(
            f"{run.name} goes on no more, or its launcher (process {launcher}) was killed: nobody"
            f" would read the capture. stepscope report {run} tells what was recorded."
        )
    if _owner(launcher) != os.geteuid():
        raise StepscopeError(f"{run.name} belongs to another user: only they can ask it.")
    status = status_folder_of(run, meta)
    if status is None:
        raise StepscopeError(
            f"{run.name} cannot be asked: process {launcher} has no status folder"
            f" {Path(folder).name} in /dev/shm or $TMPDIR that belongs to you."
        )
    return Target(run, status, launcher)


def _run_of_process(pid: int) -> Path:
    owner = _owner(pid)
    if owner is None:
        raise RunNotFoundError(
            f"There is no run and no process {pid}: stepscope runs lists the runs there are."
        )
    if owner != os.geteuid():  # root neither: it would write where another user's files say
        raise StepscopeError(f"Process {pid} belongs to another user: only they can ask it.")
    for folder in status_folders():
        is_launchers = folder.name.startswith(f"stepscope-{pid}-")
        is_its = is_launchers or (folder / f"{pid}.status").exists()
        run = said_run(folder) if is_its else None
        if run is not None:
            return run
    raise StepscopeError(
        f"Process {pid} was not started by stepscope run, or has not begun its loop: {_START}."
    )


def _owner(pid: int) -> int | None:
    try:
        return Path("/proc", str(pid)).stat().st_uid
    except (OSError, ValueError):
        return None


def is_alive(pid: int) -> bool:
    """A process that ended and was not waited for counts as over."""
    try:
        text = Path("/proc", str(pid), "stat").read_bytes()
    except OSError:
        return False
    return text.rpartition(b")")[2].split()[:1] not in ([b"Z"], [b"X"])
