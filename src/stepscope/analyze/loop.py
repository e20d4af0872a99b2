"""What is known of one process's training loop: the result of the fold (analyze/fold.py)."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from stepscope.analyze.phases import COUNT
from stepscope.analyze.spans import PHASES
from stepscope.analyze.steps import FoundBy
from stepscope.analyze.windows import Windows
from stepscope.model.phases import Phase

__all__ = ["GcUse", "LoaderUse", "Loop", "OpenSpan", "PhaseTime"]


class PhaseTime(NamedTuple):
    """Time of a phase. `cpu_ns`: how much of it the training thread ran; None: not measured."""

    wall_ns: int
    cpu_ns: int | None


class LoaderUse:
    """What training waited for one loader (evaluation not included)."""

    def __init__(self) -> None:
        self.settings: Mapping[str, Any] = {}  # of the `loader` mark; empty: not known
        self.iterations = 0
        self.batches = 0
        self.wait_ns = 0  # iter() and next() together
        self.iter_ns = 0  # iter(): starting workers
        self.first_ns = 0  # the first next() of each iteration
        self.last_ns = 0  # next() without a batch, at the end of one: workers are stopped there


class GcUse:
    """Garbage collections of the training thread within the loop."""

    def __init__(self) -> None:
        self.collections: dict[int, int] = {}  # generation → how many
        self.longest_ns = 0


class OpenSpan(NamedTuple):
    """A span that was never closed: what a killed program was in the middle of."""

    name: str
    start_ns: int
    lasted_ns: int


@dataclass(frozen=True, eq=False)
class Loop:
    """The loop of one process. Times in ns; the phases add up to the wall clock exactly."""

    rank: int
    pid: int
    found_by: FoundBy
    start_ns: int
    end_ns: int
    steps: int
    durations_ns: array[int] = field(repr=False)  # of all steps; of very many, an even sample
    windows: Windows = field(repr=False)
    has_cpu: bool
    skipped: int  # steps whose optimizer a GradScaler left out
    micro_batches: int
    startup_ns: int  # from the start of the process to the loop
    tail_ns: int  # from the end of the loop to the last sign of the process
    loaders: tuple[LoaderUse, ...]
    gc: GcUse
    saves: int
    saved_bytes: int
    transferred_bytes: int
    blind_steps: int  # steps with a backward and no forward span (compiled functions and the like)
    dropped_events: int
    open_span: OpenSpan | None
    track: int = 0  # number of the training thread; that of the main thread is the pid
    warm_up_steps: int = 0  # that were left out at its start (analyze/warm_up.py)
    warm_up_ns: int = 0

    @property
    def wall_ns(self) -> int:
        return self.end_ns - self.start_ns

    @cached_property
    def phases(self) -> dict[Phase, PhaseTime]:
        """All phases, in the order of the model; those that did not occur with 0."""
        return {
            PHASES[place]: PhaseTime(
                sum(self.windows.wall_ns(place)),
                sum(self.windows.cpu_ns(place)) if self.has_cpu else None,
            )
            for place in range(COUNT)
        }

    def share(self, *phases: Phase) -> float:
        """0.6: six tenths of the loop's wall clock went to these phases."""
        return sum(self.phases[p].wall_ns for p in phases) / self.wall_ns if self.wall_ns else 0.0
