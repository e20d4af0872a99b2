"""What stands behind the findings: the input pipeline, stacks by phase, layers, operators, traits.

Values that the analysers make from the trace and that reports show. None: not measured.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, NamedTuple

from stepscope.model.checkpoint_details import Checkpointing
from stepscope.model.finding import Location
from stepscope.model.memory import Memory
from stepscope.model.timeline import Timeline

__all__ = [
    "OTHER_THREADS",
    "SLOW_BATCHES",
    "Details",
    "FlameNode",
    "HotLine",
    "LayerTime",
    "OpTime",
    "PhaseStacks",
    "Pipeline",
    "SlowSample",
    "StageTime",
]

# What stands in place of a phase for threads that do not train: the time in which they ran Python.
OTHER_THREADS: Final = "other threads"
# What workers do in batches that take far longer than others; it counts in their spans as well.
SLOW_BATCHES: Final = "slow batches"


class StageTime(NamedTuple):
    """A stage of the input pipeline, or one transform: means for each batch that passed it.

    Wall = CPU + waiting for a CPU + blocked (disk, network, locks). `utilisation`: how much of the
    loop's time it was at work, over all workers it runs in (1.5: one and a half of them).
    """

    name: str  # "dataset", "collate", "serialise", "deserialise", "pin"; or of a transform
    where: str  # "worker", "main", "feeder", "pin"
    wall_ms: float
    cpu_ms: float | None = None
    run_queue_ms: float | None = None
    blocked_ms: float | None = None
    utilisation: float | None = None
    calls: int = 0


class SlowSample(NamedTuple):
    item: int  # its index in the dataset; -1: not known
    ms: float
    worker: int


@dataclass(frozen=True, slots=True)
class Pipeline:
    """The loader that training waited for most, as its workers saw it (0 workers: in the main
    process)."""

    workers: int
    batches: int
    stages: tuple[StageTime, ...] = ()  # in the order of the data
    transforms: tuple[StageTime, ...] = ()
    samples: int = 0
    sample_ms: Mapping[str, float] = field(default_factory=dict)  # "p50", "p95", "p99", "max"
    slow_samples: tuple[SlowSample, ...] = ()  # the slowest
    tail_share: float | None = None  # of the fetch time, in samples beyond 4 times the median
    worker_idle_share: float | None = None  # of the workers' time, waiting for something to do
    startup_ms: float | None = None  # from iter() to the first batch, a mean
    starts: int = 0  # how often workers were started
    bytes_per_batch: float | None = None  # what a worker sends
    read_bytes_per_batch: float | None = None  # from a disk
    read_chars_per_batch: float | None = None  # by read(), cached or not
    write_bytes_per_batch: float | None = None  # to a disk
    system_ms_per_batch: float | None = None  # of the CPU time, in the kernel
    batch_ms: Mapping[str, float] = field(default_factory=dict)  # as sample_ms, for whole batches
    slow_batch_share: float | None = None  # of the fetch time: what batches beyond 4 times the
    # median take more than it

    def busy_share(self, stage: StageTime) -> float | None:
        """0.9: nine tenths of the time of the processes or threads that it runs in."""
        places = max(1, self.workers) if stage.where in ("worker", "feeder") else 1
        return None if stage.utilisation is None else stage.utilisation / places

    @property
    def busiest(self) -> StageTime | None:
        """The stage that limits what the pipeline can deliver. None: that was not measured."""
        shares = [(self.busy_share(stage), stage) for stage in self.stages]
        known = [(share, stage) for share, stage in shares if share is not None]
        return max(known, key=lambda one: one[0])[1] if known else None


class HotLine(NamedTuple):
    """A line of the user's program; `share` of the time of the phase, what it calls included."""

    location: Location
    share: float
    self_share: float
    native_share: float | None  # of `share`, in C
    samples: int


@dataclass(frozen=True, slots=True)
class FlameNode:
    """A function with the time below it; children largest first, small ones left out."""

    name: str
    file: str
    line: int
    ms: float
    children: tuple[FlameNode, ...] = ()


class _MaxDepth(NamedTuple):
    """A limit for `model/plain.py`: whoever draws a flame goes down level by level."""

    levels: int

    def problem(self, flame: FlameNode | None) -> str:
        level = [] if flame is None else [flame]
        for _ in range(self.levels):
            level = [child for node in level for child in node.children]
        return "is nested too deeply" if level else ""


@dataclass(frozen=True, slots=True)
class PhaseStacks:
    """Where the time of a phase went: of the training thread, of the other threads of its process
    while they ran Python, or of all workers together."""

    phase: str  # of model/phases.py, a name from above, or that of a worker's span
    where: str  # "main", "thread" or "worker"
    ms: float
    samples: int
    lines: tuple[HotLine, ...] = ()  # of the user's own files, the dearest first
    flame: Annotated[FlameNode | None, _MaxDepth(200)] = None


class LayerTime(NamedTuple):
    """A module: means for each sampled step, its children included; `self_…` without them."""

    path: str  # "encoder.layers.0.linear1"; "" is the model
    kind: str  # its class
    calls: float
    forward_ms: float
    backward_ms: float | None
    self_forward_ms: float
    self_backward_ms: float | None
    memory_bytes: float | None  # of the activations that it keeps for backward


class OpTime(NamedTuple):
    """An operator of torch: means for each profiled step."""

    name: str
    calls: float
    self_ms: float
    share: float  # of the step


@dataclass(frozen=True, slots=True)
class Details:
    """`traits`: facts about the program that no time tells, by name (model/traits.py)."""

    pipeline: Pipeline | None = None
    stacks: tuple[PhaseStacks, ...] = ()
    layers: tuple[LayerTime, ...] = ()
    layer_steps: int = 0  # how many steps the layers were timed in
    ops: tuple[OpTime, ...] = ()
    op_steps: int = 0
    traits: Mapping[str, Any] = field(default_factory=dict)
    timeline: Timeline | None = None
    memory: Memory | None = None  # where it was asked for (--memory)
    checkpointing: Checkpointing | None = None  # where activations are recomputed
