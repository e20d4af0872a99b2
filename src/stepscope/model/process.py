"""Whose events they are. Within a process, the track of an event is a thread or a device."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from stepscope.model.plain import Count, Known, Nanoseconds, Range

__all__ = ["ProcessInfo"]


@dataclass(frozen=True, slots=True)
class ProcessInfo:
    """The header that every recording process writes first."""

    pid: Count
    parent_pid: Count
    rank: Annotated[int, Range(0, 1 << 30)]  # 0 where there are no ranks
    world_size: Count
    host: str
    role: Annotated[
        str, Known(("program", "launcher"))
    ]  # "program", or "launcher" for the process that samples the host
    argv: tuple[str, ...]
    python: str
    core: str  # "native" or "python"
    monotonic_ns: Nanoseconds  # the same moment on two clocks, to place the run in calendar time
    unix_ns: Nanoseconds
    extra: Mapping[str, Any] = field(default_factory=dict)
