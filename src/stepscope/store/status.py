"""Status pages (FORMAT.md): what a recording process says about itself while it runs.

They lie outside the run folder, so that losses are known also when that one is full or gone.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from stepscope.errors import FormatError
from stepscope.record.frames import STATUS, STATUS_MAGIC
from stepscope.store.files import PRIVATE_FILE, read_bytes

__all__ = [
    "ENDED_PID",
    "STATUS_PREFIX",
    "StatusPage",
    "is_own_folder",
    "join_ended_pages",
    "read_status_pages",
    "status_folder_of",
    "status_parents",
]

ENDED_PID = 0  # of the page of all processes that have ended and lost nothing
MOST_PAGES = 64  # then those are joined
MAX_PAGE_BYTES = 1 << 16
STATUS_PREFIX = "stepscope-"  # of the names of status folders; the launcher's pid follows


def status_parents() -> tuple[Path, ...]:
    """Where the status folder of a run can lie, besides in the run folder. First in memory, because
    it must work when the disk does not."""
    return Path("/dev/shm"), Path(os.environ.get("TMPDIR") or "/tmp")


def status_folder_of(run: Path, meta: Mapping[str, Any]) -> Path | None:
    """The status folder of a run that goes on; None: it has none, or none of this user.

    Anybody can have made a run folder, and its meta.json can name any path. So only the name is
    taken from there, and looked for where a launcher makes such folders.
    """
    named, launcher = meta.get("status_folder"), meta.get("launcher_pid")
    if not isinstance(named, str) or not isinstance(launcher, int):
        return None
    name = Path(named).name
    if not name.startswith(f"{STATUS_PREFIX}{launcher}-"):
        return None
    found = (parent / name for parent in (*status_parents(), run))
    return next(filter(is_own_folder, found), None)


def is_own_folder(path: Path) -> bool:
    """A folder of this user that nobody else can write to, and no link to one."""
    try:
        state = path.lstat()
    except (OSError, ValueError):
        return False
    is_private = not state.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return stat.S_ISDIR(state.st_mode) and state.st_uid == os.geteuid() and is_private


class StatusPage(NamedTuple):
    """Figures since the process began."""

    pid: int
    recorded: int
    dropped: int
    lost: int
    last_errno: int
    step: int
    open_span: str  # outermost open span of the first thread; "": none


def read_status_pages(folder: Path) -> list[StatusPage]:
    """What can be read of them; a page that is being made or is no page is passed over."""
    pages = []
    for path in _pages(folder):
        try:
            data = read_bytes(path, MAX_PAGE_BYTES)[: STATUS.size]
        except (FormatError, FileNotFoundError):
            continue
        if len(data) == STATUS.size and data.startswith(STATUS_MAGIC):
            _, pid, recorded, dropped, lost, last_errno, step, name = STATUS.unpack(data)
            span = name.partition(b"\0")[0].decode("utf-8", "replace")
            pages.append(StatusPage(pid, recorded, dropped, lost, last_errno, step, span))
    return pages


def join_ended_pages(folder: Path, is_running: Callable[[int], bool]) -> None:
    """Pages of processes that ended and lost nothing become one: loaders may start thousands of
    workers, and each page takes some memory. OSError: it could not be written."""
    if len(list(_pages(folder))) <= MOST_PAGES:
        return
    over = [
        page
        for page in read_status_pages(folder)
        if page.pid == ENDED_PID or not (page.dropped or page.lost or is_running(page.pid))
    ]
    recorded = sum(page.recorded for page in over)
    draft = folder / "ended"
    draft.touch(PRIVATE_FILE)
    draft.write_bytes(STATUS.pack(STATUS_MAGIC, ENDED_PID, recorded, 0, 0, 0, 0, b""))
    draft.replace(folder / f"{ENDED_PID}.status")
    for page in over:
        if page.pid != ENDED_PID:
            (folder / f"{page.pid}.status").unlink(missing_ok=True)


def _pages(folder: Path) -> Iterable[Path]:
    try:
        with os.scandir(folder) as entries:
            return [Path(entry.path) for entry in entries if entry.name.endswith(".status")]
    except OSError:
        return []
