"""Status pages (FORMAT.md): what a recording process says about itself while it runs.

They lie outside the run folder, so that losses are known also when that one is full or gone.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from stepscope.errors import FormatError
from stepscope.record.frames import STATUS, STATUS_MAGIC
from stepscope.store.files import PRIVATE_FILE, read_bytes

__all__ = ["ENDED_PID", "StatusPage", "join_ended_pages", "read_status_pages"]

ENDED_PID = 0  # of the page of all processes that have ended and lost nothing
MOST_PAGES = 64  # then those are joined
MAX_PAGE_BYTES = 1 << 16


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
