"""A run over time, in few enough points to be drawn: steps by phase, and what they used."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, NamedTuple

from stepscope.model.plain import Amount, Count, Range

__all__ = ["MAX_POINTS", "ResourcePoint", "StepBucket", "Timeline"]

MAX_POINTS = 500


class StepBucket(NamedTuple):
    """Neighbouring steps together. No steps: what came after the last one (evaluation, a save)."""

    start_ms: Amount  # since the loop began
    first_step: Count  # its number in the loop, from 0
    steps: Count
    ms: tuple[Amount, ...]  # of all these steps, in the order of Timeline.phases


class ResourcePoint(NamedTuple):
    """What was used around a moment. CPU is the mean since the point before. None: not measured."""

    at_ms: float  # since the loop began
    program_cores: Amount | None = None  # 1.5: one and a half CPUs were kept busy
    children_cores: Amount | None = None
    program_rss_bytes: Amount | None = None
    children_rss_bytes: Amount | None = None  # of all together; shared pages count in each
    gpu_busy_share: Amount | None = None  # of all GPUs, a mean
    gpu_memory_bytes: Amount | None = None  # of all GPUs together


@dataclass(frozen=True, slots=True)
class Timeline:
    """The loop of one rank, and the resources of the whole run, on one clock."""

    rank: int
    wall_ms: Amount
    phases: tuple[str, ...] = ()  # those that occurred
    buckets: Annotated[
        tuple[StepBucket, ...], Range(0, MAX_POINTS)
    ] = ()  # without gaps: one begins where the other ends
    points: Annotated[tuple[ResourcePoint, ...], Range(0, MAX_POINTS)] = ()
    cpu_count: Amount | None = None
    # (ms since the loop began, bytes) of the process that trains: more often than in `points`.
    rss: Annotated[tuple[tuple[float, Amount], ...], Range(0, MAX_POINTS)] = ()
