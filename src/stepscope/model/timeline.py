"""A run over time, in few enough points to be drawn: steps by phase, and what they used."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

__all__ = ["MAX_POINTS", "ResourcePoint", "StepBucket", "Timeline"]

MAX_POINTS = 500


class StepBucket(NamedTuple):
    """Neighbouring steps together. No steps: what came after the last one (evaluation, a save)."""

    start_ms: float  # since the loop began
    first_step: int  # its number in the loop, from 0
    steps: int
    ms: tuple[float, ...]  # of all these steps, in the order of Timeline.phases


class ResourcePoint(NamedTuple):
    """What was used around a moment. CPU is the mean since the point before. None: not measured."""

    at_ms: float  # since the loop began
    program_cores: float | None = None  # 1.5: one and a half CPUs were kept busy
    children_cores: float | None = None
    program_rss_bytes: float | None = None
    children_rss_bytes: float | None = None  # of all together; shared pages count in each
    gpu_busy_share: float | None = None  # of all GPUs, a mean
    gpu_memory_bytes: float | None = None  # of all GPUs together


@dataclass(frozen=True, slots=True)
class Timeline:
    """The loop of one rank, and the resources of the whole run, on one clock."""

    rank: int
    wall_ms: float
    phases: tuple[str, ...] = ()  # those that occurred
    buckets: tuple[StepBucket, ...] = ()  # without gaps: one begins where the other ends
    points: tuple[ResourcePoint, ...] = ()
    cpu_count: float | None = None
