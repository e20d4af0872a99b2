"""Whose events they are. Within a process, the track of an event is a thread or a device."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

__all__ = ["ProcessInfo"]


@dataclass(frozen=True, slots=True)
class ProcessInfo:
    """The header that every recording process writes first."""

    pid: int
    parent_pid: int
    rank: int  # 0 where there are no ranks
    world_size: int
    host: str
    role: str  # "program", or "launcher" for the process that samples the host
    argv: tuple[str, ...]
    python: str
    core: str  # "native" or "python"
    monotonic_ns: int  # the same moment on two clocks, to place the run in calendar time
    unix_ns: int
    extra: dict[str, Any] = field(default_factory=dict)
