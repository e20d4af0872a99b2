"""What meta.json says about a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, TypedDict

from stepscope.model.plain import Count, FilePath, Range, UnixTime

__all__ = ["HostInfo", "Losses", "Meta", "RunSettings"]


class HostInfo(TypedDict, total=False):
    name: str
    system: str
    machine: str
    cpus: Count


class RunSettings(TypedDict, total=False):
    level: str
    memory: list[str]


class Losses(TypedDict, total=False):
    """Events that the recording processes counted as dropped or lost."""

    dropped_events: Count
    lost_events: Count


class Meta(TypedDict, total=False):
    """Known when the program starts; `ended_unix` and what follows it, when it has ended."""

    schema: int
    path: str  # of the run folder; in summaries
    name: str
    stepscope: str  # version
    python: str  # version
    executable: str
    host: HostInfo
    cwd: FilePath
    command: list[str]
    settings: RunSettings
    watch_file: str | None
    launcher_pid: Annotated[int, Range(0, 2**31)]
    status_folder: FilePath | None
    started_unix: UnixTime | None
    ended_unix: UnixTime | None
    exit_code: Annotated[int, Range(-(2**31), 2**31)] | None
    git: Mapping[str, Any]
    losses: Losses
