"""The kinds of finding: one vocabulary, each mapped to a BottleneckType of the specifications."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from stepscope.model.types import BottleneckType

__all__ = ["KINDS", "BottleneckType", "Kind", "Signal"]


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of finding. `moderate_share` and `high_share`: from where on it is worth attention."""

    name: str
    group: str
    bottleneck_type: BottleneckType
    moderate_share: float
    high_share: float


class Signal:
    """From where on a measurement speaks for a kind. Shares of time stand with the kinds."""

    # Input: a blocked thread that reads less than this from a disk waits for something else.
    DISK_BYTES_PER_BLOCKED_S: Final = 1e5
    DISK_BYTES_PER_CPU_S: Final = 1e8  # the kernel moves a disk's bytes at least that quickly
    DISK_PART_OF_READS: Final = 0.2  # read_bytes / rchar: below, files came from memory
    NETWORK_BYTES_PER_S: Final = 1e5  # received by the host while the input was blocked
    DOMINANT: Final = 0.8  # of a wait: who has that much and no named rival has all of it
    TAIL_SHARE: Final = 0.1  # of the fetch time, in samples beyond 4 times the median
    SATURATED: Final = 0.85  # of the CPUs in use: who does not run waits for one of them
    # Computation.
    SHORT_OP_US: Final = 40.0  # operators this short on average may be mostly their own dispatch
    TINY_OP_US: Final = 10.0  # an operator this short is mostly its own dispatch
    # What recomputing saves may take this much of what was free: memory is sampled and not
    # followed, allocators round up, and other programs use it as well.
    AMPLE_SHARE: Final = 0.5
    POOR_SHARE: Final = 0.25  # of the bytes that recomputing saves in a millisecond elsewhere
    MATMUL_SHARE: Final = 0.5  # of the step, in products that lower precision speeds up
    # Host.
    WANTED_PER_CPU: Final = 1.5  # threads that run or want to, for each CPU
    DELAY_PER_CPU_TIME: Final = 0.3  # waiting for a CPU against running on one
    RIVAL_CORES: Final = 0.2  # CPU time of other threads, from which on they hold the GIL
    GIL_CORES: Final = 1.3  # threads that take turns do not use more CPUs than this together
    WRITTEN_BYTES_PER_S: Final = 1e6  # to a disk, saves not counted
    GPU_WAITS_FOR_HOST: Final = 0.9  # a GPU that is busy less than this has gaps
    # Memory.
    SCATTERED_BYTES: Final = 256 << 20  # less in small pieces is not worth a word
    SCATTERED_SHARE: Final = 0.1  # of what an allocator has taken, free and in small pieces


def _kinds(group: str, moderate: float, high: float, **types: BottleneckType) -> list[Kind]:
    return [
        Kind(name.replace("_", "-"), group, kind, moderate, high) for name, kind in types.items()
    ]


_T = BottleneckType
# From which share of the step peers call a thing moderate and high (xprof, TraceML).
KINDS: dict[str, Kind] = {
    kind.name: kind
    for kind in (
        *_kinds(
            "input",
            0.05,
            0.20,
            input_cpu=_T.PREPROCESSING,
            input_io=_T.I_O_OPERATION,
            input_network=_T.NETWORK_LATENCY,
            input_collate=_T.DATA_LOADING,
            input_ipc=_T.DATA_LOADING,
            input_worker_startup=_T.DATA_LOADING,
            input_skew=_T.DATA_LOADING,
            transfer=_T.GPU_TRANSFER,
        ),
        *_kinds(
            "compute",
            0.05,
            0.20,
            compute=_T.CPU_COMPUTATION,
            precision=_T.CPU_COMPUTATION,
            denormals=_T.CPU_COMPUTATION,
            layout=_T.CPU_COMPUTATION,
            recompute=_T.CPU_COMPUTATION,
            optimizer=_T.CPU_COMPUTATION,
        ),
        # A block of code without a training loop in it.
        *_kinds("block", 0.05, 0.20, cpu_bound=_T.CPU_BOUND),
        # Some dispatch is part of every step: from a third of it on, it is what to work on.
        *_kinds("compute", 0.30, 0.50, host_overhead=_T.CPU_BOUND),
        *_kinds(
            "host",
            0.05,
            0.20,
            python_in_loop=_T.CPU_BOUND,
            logging_io=_T.I_O_OPERATION,
            checkpoint_save=_T.I_O_OPERATION,
            validation=_T.CPU_COMPUTATION,
            gil=_T.CPU_BOUND,
            oversubscription=_T.CPU_BOUND,
            swap=_T.MEMORY_ALLOCATION,
        ),
        *_kinds("host", 0.01, 0.10, gc=_T.CPU_BOUND),
        *_kinds(
            "ranks",
            0.03,
            0.15,
            device_sync=_T.SYNCHRONIZATION,
            communication=_T.SYNCHRONIZATION,
            straggler=_T.SYNCHRONIZATION,
        ),
        *_kinds(
            "memory",
            0.05,
            0.20,
            leak=_T.MEMORY_ALLOCATION,
            cycle_garbage=_T.MEMORY_ALLOCATION,
            fragmentation=_T.MEMORY_ALLOCATION,
        ),
        # Of the limit: from there on the next larger batch is the last one.
        *_kinds("memory", 0.92, 0.97, memory_pressure=_T.MEMORY_ALLOCATION),
        # Seen while training goes on: what changed, not what a step is made of.
        *_kinds(
            "live",
            0.05,
            0.20,
            stall=_T.SYNCHRONIZATION,
            slowdown=_T.CPU_BOUND,
            anomaly=_T.CPU_BOUND,
            throttling=_T.CPU_COMPUTATION,
            gpu_starved=_T.DATA_LOADING,
            loss_not_finite=_T.NUMERICS,
            loss_diverging=_T.NUMERICS,
            threshold=_T.CPU_BOUND,
        ),
    )
}
