"""What the profilers of data loading and preprocessing found. None: not measured."""

from __future__ import annotations

import enum
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from stepscope.model.details import Pipeline
from stepscope.model.finding import Finding
from stepscope.model.strict_json import strict_json

__all__ = [
    "DataLoadingBottleneck",
    "DataLoadingProfile",
    "LoadingFigures",
    "PreprocessingProfile",
]


class DataLoadingBottleneck(enum.Enum):
    """What limits a loader. The first four are the source document's."""

    SLOW_DISK_IO = "slow_disk_io"
    INSUFFICIENT_WORKERS = "insufficient_workers"
    MEMORY_PRESSURE = "memory_pressure"
    GPU_TRANSFER_OVERHEAD = "gpu_transfer_overhead"
    CPU_BOUND_PREPROCESSING = "cpu_bound_preprocessing"  # making batches keeps CPUs busy
    SLOW_DATA_SOURCE = "slow_data_source"  # it waits, and not for a disk: network, lock, sleep
    WORKER_STARTUP = "worker_startup"


class LoadingFigures(NamedTuple):
    """What was measured of a loader that was iterated by itself: analysers judge from this."""

    workers: int
    batches: int
    wall_s: float  # of all measured batches
    cpu_s: float  # of this process and of children that ended, meanwhile
    cpus: float | None = None  # that this process may use
    program_cores: float | None = None  # CPUs that this process kept busy
    program_delay_cores: float | None = None  # threads of it that were ready and had no CPU
    children_cores: float | None = None  # CPUs that all workers kept busy
    run_delay_cores: float | None = None  # threads, of the workers if there are any, without a CPU
    read_bytes_per_s: float | None = None  # from a disk, by those who make the batches
    blocked_io_share: float | None = None  # of the time, waiting for a disk
    idle_share: float | None = None  # of the workers' time, waiting for something to do
    made_s: float | None = None  # for a worker to make a batch, sending it not included
    memory_taken: float | None = None  # share of the machine's memory, the most
    memory_threshold: float = 1.0
    own_memory_share: float | None = None  # of the memory taken, what this process held
    transfer_share: float | None = None  # of the time, moving tensors to another device
    startup_s: float = 0.0  # iter() and what the first batches took beyond the others
    total_s: float = 0.0  # from iter() to the last batch
    pass_batches: int | None = None  # of a whole pass over the data
    step_s: float | None = None  # what training takes for a batch beside loading it
    best_workers: int | None = None  # by the model of throughput (advise/throughput.py)
    best_batches_per_s: tuple[float, float] | None = None  # with them, at least and at most

    @property
    def batch_s(self) -> float:
        return self.wall_s / self.batches if self.batches else 0.0

    @property
    def busy_share(self) -> float | None:
        """How much of its time a maker of batches computes: this process, or a worker."""
        if not self.wall_s:
            return None
        if not self.workers:
            return min(1.0, self.cpu_s / self.wall_s)
        return None if self.children_cores is None else min(1.0, self.children_cores / self.workers)

    @property
    def waiting_share(self) -> float | None:
        """How much of its time a maker of batches waits, neither for a CPU nor for work."""
        busy = self.busy_share
        if busy is None:
            return None
        idle = (self.idle_share or 0.0) if self.workers else 0.0
        return max(0.0, 1.0 - busy - self.delay_share - idle)

    @property
    def delay_share(self) -> float:
        """How much of its time a maker of batches is ready and has no CPU."""
        delay = (self.run_delay_cores or 0.0) / (self.workers or 1)
        return max(0.0, min(1.0 - (self.busy_share or 0.0), delay))

    @property
    def weight(self) -> float:
        """The loader's share of a training step; 1 where nothing is known of the training."""
        if self.step_s is None or not self.batch_s:
            return 1.0
        if not self.workers:
            return self.batch_s / (self.batch_s + self.step_s)
        return max(0.0, self.batch_s - self.step_s) / max(self.batch_s, self.step_s)


@dataclass(frozen=True, kw_only=True)
class DataLoadingProfile:
    """A loader that was iterated by itself, with nobody using the batches: how fast it can be.

    throughput_…: after the first batches, one for each worker, which also start the pipeline; those
        are in `startup_seconds`.
    memory_usage_mb: the most that this process held; worker_memory_mb: the largest worker.
    cpu_usage_percent: of the CPUs that it may use, by this process and the workers.
    bottlenecks: the worst first; `findings` are the same with evidence, severity and advice.
    pipeline: the stages within the workers, where those were recorded.
    figures: what all this was judged from.
    """

    batch_size: int | None = None
    num_workers: int = 0
    pin_memory: bool = False
    persistent_workers: bool = False
    prefetch_factor: int | None = None
    num_batches: int = 0
    num_samples: int | None = None  # in those batches
    avg_batch_time: float | None = None
    min_batch_time: float | None = None
    max_batch_time: float | None = None
    startup_seconds: float | None = None
    throughput_batches_per_second: float | None = None
    throughput_samples_per_second: float | None = None
    memory_usage_mb: float | None = None
    worker_memory_mb: float | None = None
    gpu_memory_usage_mb: float | None = None
    cpu_usage_percent: float | None = None
    bottlenecks: tuple[DataLoadingBottleneck, ...] = ()
    findings: tuple[Finding, ...] = ()
    suggestions: tuple[str, ...] = ()
    pipeline: Pipeline | None = None
    figures: LoadingFigures | None = None
    notes: tuple[str, ...] = ()

    @property
    def score(self) -> float:
        """Samples a second; batches a second where samples could not be counted; 0: nothing."""
        return self.throughput_samples_per_second or self.throughput_batches_per_second or 0.0

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON."""
        plain = {
            **{name: value for name, value in vars(self).items() if name != "figures"},
            "bottlenecks": [one.value for one in self.bottlenecks],
            "findings": [_finding_to_dict(one) for one in self.findings],
            "suggestions": list(self.suggestions),
            "pipeline": None if self.pipeline is None else asdict(self.pipeline),
            "notes": list(self.notes),
            "score": self.score,
        }
        return dict(strict_json(plain))


@dataclass(frozen=True, kw_only=True)
class PreprocessingProfile:
    """A preprocessing function, called many times with the same data; nothing came from a cache.

    execution_time: seconds of one call, the mean. throughput: calls a second.
    samples_per_second: where a batch of known size was given.
    cache_lookup_time: seconds to find out whether a result is known (a digest of the whole input);
        `cache_gain` is what a hit saves of a call (0.9: nine tenths), negative where looking costs
        more than computing.
    is_deterministic: two calls gave the same; else results cannot be kept. None: not comparable.
    changes_input: it writes into the data that it is given.
    """

    operation_name: str
    num_iterations: int
    execution_time: float | None = None
    min_time: float | None = None
    max_time: float | None = None
    throughput: float | None = None
    batch_size: int | None = None
    samples_per_second: float | None = None
    input_shape: tuple[int, ...] | None = None
    memory_usage_mb: float | None = None
    gpu_memory_usage_mb: float | None = None
    cpu_usage_percent: float | None = None
    cpu_time: float | None = None
    findings: tuple[Finding, ...] = ()
    suggestions: tuple[str, ...] = ()
    cache_hits: int = 0
    cache_misses: int = 0
    cache_lookup_time: float | None = None
    is_deterministic: bool | None = None
    changes_input: bool | None = None
    notes: tuple[str, ...] = ()

    @property
    def cache_gain(self) -> float | None:
        if self.cache_lookup_time is None or not self.execution_time:
            return None
        return 1.0 - self.cache_lookup_time / self.execution_time

    @property
    def bottlenecks(self) -> tuple[str, ...]:
        """Kinds of what was in the way, the worst first."""
        return tuple(one.kind for one in self.findings)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON."""
        plain = {
            **vars(self),
            "input_shape": None if self.input_shape is None else list(self.input_shape),
            "findings": [_finding_to_dict(one) for one in self.findings],
            "bottlenecks": list(self.bottlenecks),
            "suggestions": list(self.suggestions),
            "notes": list(self.notes),
            "cache_gain": self.cache_gain,
        }
        return dict(strict_json(plain))


def _finding_to_dict(finding: Finding) -> dict[str, Any]:
    return {
        "kind": finding.kind,
        "bottleneck_type": finding.bottleneck_type.value,
        "title": finding.title,
        "share": finding.share,
        "severity": finding.severity,
        "confidence": finding.confidence,
        "evidence": list(finding.evidence),
        "missing": list(finding.missing),
        "location": asdict(finding.location),
    }
