"""Status folders: where the processes of a run and its launcher meet while it goes on.

They lie outside the run folder and in memory where possible, so that they work when the disk does
not. The launcher holds a lock on its folder. A launcher that is killed leaves the folder behind,
and the kernel drops the lock: the next launcher removes what nobody holds. A process id would not
do, since containers that share /dev/shm see different ones.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
import stat
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from stepscope.store.files import PRIVATE_FOLDER

__all__ = [
    "make_status_folder",
    "remove_status_folder",
    "status_folder_of",
    "status_folders",
    "sweep_status_folders",
]

_NAME: Final = re.compile(r"\.?stepscope-\d+-\d+")  # with the dot: not locked yet
_PAGE: Final = re.compile(r"([1-9]\d*)\.status")  # of a process, not of all that have ended
_locks: dict[Path, int] = {}  # folders of this process → the descriptors that hold their locks


def make_status_folder(run: Path) -> Path:
    """A new folder that is locked until this process ends or removes it."""
    for parent in (*_parents(), run):
        folder = parent / f"stepscope-{os.getpid()}-{time.time_ns()}"
        draft = parent / f".{folder.name}"  # no sweeper knows it before it is locked
        try:
            draft.mkdir(PRIVATE_FOLDER)
        except OSError:
            continue
        lock = _lock(draft)
        if lock is not None:
            _locks[folder] = lock
        with contextlib.suppress(OSError):
            draft.rename(folder)
            return folder
        remove_status_folder(folder)
        draft.rmdir()
    return run / "no-status"  # nobody can write there, and nobody will look for it


def remove_status_folder(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    lock = _locks.pop(folder, None)
    if lock is not None:
        os.close(lock)


def sweep_status_folders(parents: Sequence[Path] | None = None) -> None:
    """Remove this user's folders whose launcher is gone and where no process is left."""
    for folder in status_folders(parents):
        lock = _lock(folder)
        if lock is None:
            continue  # its launcher lives
        try:
            if not _is_used(folder):
                shutil.rmtree(folder, ignore_errors=True)
        finally:
            os.close(lock)


def status_folders(parents: Sequence[Path] | None = None) -> Iterator[Path]:
    """The status folders of this user alone: anybody can make a folder of such a name."""
    for parent in _parents() if parents is None else parents:
        try:
            with os.scandir(parent) as entries:
                found = sorted(entry.path for entry in entries if _NAME.fullmatch(entry.name))
        except OSError:
            continue
        yield from filter(_is_own_folder, map(Path, found))


def status_folder_of(run: Path, meta: Mapping[str, Any]) -> Path | None:
    """The status folder of a run that goes on; None: it has none, or none of this user.

    Anybody can have made a run folder, and its meta.json can name any path. So only the name is
    taken from there, and looked for where a launcher makes such folders.
    """
    named, launcher = meta.get("status_folder"), meta.get("launcher_pid")
    if not isinstance(named, str) or not isinstance(launcher, int):
        return None
    name = Path(named).name
    if not _NAME.fullmatch(name) or not name.startswith(f"stepscope-{launcher}-"):
        return None
    found = (parent / name for parent in (*_parents(), run))
    return next(filter(_is_own_folder, found), None)


def _parents() -> tuple[Path, Path]:
    return Path("/dev/shm"), Path(os.environ.get("TMPDIR") or "/tmp")


def _is_own_folder(path: Path) -> bool:
    """A folder of this user that nobody else can write to, and no link to one."""
    try:
        state = path.lstat()
    except (OSError, ValueError):
        return False
    is_private = not state.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return stat.S_ISDIR(state.st_mode) and state.st_uid == os.geteuid() and is_private


def _lock(folder: Path) -> int | None:
    """A descriptor that holds the lock; None: somebody else does, or it cannot be locked."""
    try:
        number = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(number)
        return None
    return number


def _is_used(folder: Path) -> bool:
    """A program outlives its killed launcher, and its losses are read from its page."""
    try:
        pages = [found[1] for one in folder.iterdir() if (found := _PAGE.fullmatch(one.name))]
    except OSError:
        return True
    return any(Path("/proc", pid).exists() for pid in pages)
