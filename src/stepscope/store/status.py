"""Status pages (FORMAT.md): what a recording process says about itself while it runs.

They lie outside the run folder, so that losses are known also when that one is full or gone.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from stepscope.record.frames import STATUS, STATUS_MAGIC

__all__ = ["StatusPage", "read_status_pages"]


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
            data = path.read_bytes()[: STATUS.size]
        except OSError:
            continue
        if len(data) == STATUS.size and data.startswith(STATUS_MAGIC):
            _, pid, recorded, dropped, lost, last_errno, step, name = STATUS.unpack(data)
            span = name.partition(b"\0")[0].decode("utf-8", "replace")
            pages.append(StatusPage(pid, recorded, dropped, lost, last_errno, step, span))
    return pages


def _pages(folder: Path) -> Iterable[Path]:
    try:
        with os.scandir(folder) as entries:
            return [Path(entry.path) for entry in entries if entry.name.endswith(".status")]
    except OSError:
        return []
