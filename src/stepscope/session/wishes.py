"""What a profiler in the code is asked to find out."""

from __future__ import annotations

from typing import NamedTuple

from stepscope.config import LINES_INTERVAL_S, MAX_SAMPLES, MEMORY_INTERVAL_S

__all__ = ["Wishes"]


class Wishes(NamedTuple):
    gpu: bool = True
    hooks: bool = True  # see torch's loaders, modules and optimizers
    leaks: bool = False
    lines: bool = False
    flops: bool = False
    energy: bool = False
    interval_s: float = MEMORY_INTERVAL_S  # between two samples while something runs
    lines_interval_s: float = LINES_INTERVAL_S
    keep: int = MAX_SAMPLES  # runs of an operation that are recorded one by one
    country: str | None = None  # whose grid the energy came from
    grams_per_kwh: float | None = None  # given instead
    cpu_watts: float | None = None  # of the CPUs under full load, where no counter tells
