"""Who is at work on a delivery, so that no other process makes it too."""

from __future__ import annotations

import itertools
import os
from pathlib import Path

__all__ = ["is_gone", "new_owner"]

_APART = "|"
_numbers = itertools.count(1)


def new_owner() -> str:
    """A name that nobody else has: machine, process, and a number within it."""
    return _APART.join((_around(), str(os.getpid()), _started("self"), str(next(_numbers))))


def is_gone(owner: str) -> bool:
    """Its process has ended. False too where that cannot be told: on another machine, or in another
    container."""
    around, pid, started, *_ = *owner.split(_APART), "", ""
    return around == _around() and pid.isdigit() and _started(pid) != started


def _around() -> str:
    """The machine since its start, and the container: within it, a process has one number."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
        space = os.readlink("/proc/self/ns/pid")  # noqa: PTH115 - it leads nowhere
    except OSError:
        boot = space = ""
    return f"{os.uname().nodename}/{boot}/{space}"


def _started(pid: str) -> str:
    """When, in ticks since the machine's start; "": there is no such process."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace")
    except OSError:
        return ""
    fields = stat.rpartition(")")[2].split()  # the name before it may hold anything
    return fields[19] if len(fields) > 19 else ""
