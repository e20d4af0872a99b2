"""The kinds of finding: one vocabulary, each mapped to a BottleneckType of the specifications."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from stepscope.model.phases import Phase
from stepscope.model.types import BottleneckType
from stepscope.units import percent

__all__ = ["KINDS", "BottleneckType", "Kind", "Signal"]


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of finding.

    moderate_share, high_share: the shares from which it is worth attention, and a lot of it.
    words: what costs the time, as the subject of a sentence; "" where findings bring their own.
    phases: where in the loop that time lies; () for everywhere.
    """

    name: str
    group: str
    bottleneck_type: BottleneckType
    moderate_share: float
    high_share: float
    words: str = ""
    phases: tuple[Phase, ...] = ()

    def title(self, share: float) -> str:
        """
        >>> KINDS["gc"].title(0.12)
        'Garbage collection takes 12 % of the loop'
        """
        return f"{self.words[:1].upper()}{self.words[1:]} takes {percent(share)} of the loop"


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
    OTHERS_CORES: Final = 0.25  # CPUs that other programs use: less cannot hold anybody up
    RIVAL_CORES: Final = 0.2  # CPU time of other threads, from which on they hold the GIL
    GIL_CORES: Final = 1.3  # threads that take turns do not use more CPUs than this together
    WRITTEN_BYTES_PER_S: Final = 1e6  # to a disk, saves not counted
    GPU_WAITS_FOR_HOST: Final = 0.9  # a GPU that is busy less than this has gaps
    # Memory.
    SCATTERED_BYTES: Final = 256 << 20  # less in small pieces is not worth a word
    SCATTERED_SHARE: Final = 0.1  # of what an allocator has taken, free and in small pieces


_T = BottleneckType
_COMPUTE = (Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER)
_BETWEEN = Phase.PYTHON_BETWEEN
_COMMON = (0.05, 0.20)  # the shares from which peers call a cost moderate and high (xprof, TraceML)


def _costs(
    group: str,
    bottleneck: BottleneckType,
    phases: tuple[Phase, ...],
    shares: tuple[float, float] = _COMMON,
    **words: str,
) -> list[Kind]:
    """Kinds that cost time in these phases, by name."""
    return [
        Kind(name.replace("_", "-"), group, bottleneck, *shares, words=said, phases=phases)
        for name, said in words.items()
    ]


def _others(group: str, shares: tuple[float, float], **types: BottleneckType) -> list[Kind]:
    """Kinds that are no share of a loop's time: findings about them bring their own titles."""
    return [Kind(name.replace("_", "-"), group, kind, *shares) for name, kind in types.items()]


_WAIT, _MODEL = (Phase.INPUT_WAIT,), (Phase.FORWARD, Phase.BACKWARD)
_ALL = (
    *_costs("input", _T.PREPROCESSING, _WAIT, input_cpu="computing samples"),
    *_costs("input", _T.I_O_OPERATION, _WAIT, input_io="waiting for data to be read"),
    *_costs("input", _T.NETWORK_LATENCY, _WAIT, input_network="fetching data over the network"),
    *_costs(
        "input",
        _T.DATA_LOADING,
        _WAIT,
        input_collate="collating batches",
        input_ipc="passing batches from workers to the training process",
        input_worker_startup="starting loader workers",
        input_skew="waiting for a few slow samples",
    ),
    *_costs("input", _T.GPU_TRANSFER, (Phase.TRANSFER,), transfer="moving tensors between devices"),
    *_costs(
        "compute",
        _T.CPU_COMPUTATION,
        _COMPUTE,
        compute="model compute",
        precision="a higher precision than needed",
        denormals="arithmetic on denormal numbers",
    ),
    *_costs("compute", _T.CPU_COMPUTATION, (Phase.OPTIMIZER,), optimizer="the optimizer"),
    *_costs("compute", _T.CPU_COMPUTATION, _MODEL, layout="a slow memory layout of images"),
    *_costs("compute", _T.CPU_COMPUTATION, (Phase.BACKWARD,), recompute="recomputing activations"),
    # Some dispatch is part of every step: from a third of it on, it is what to work on.
    *_costs(
        "host",
        _T.CPU_BOUND,
        _COMPUTE,
        (0.30, 0.50),
        host_overhead="Python and dispatch overhead between operators",
    ),
    *_costs("host", _T.CPU_BOUND, (_BETWEEN,), python_in_loop="your own Python code in the loop"),
    *_costs("host", _T.I_O_OPERATION, (_BETWEEN,), logging_io="writing logs"),
    *_costs(
        "host",
        _T.I_O_OPERATION,
        (Phase.CHECKPOINT_SAVE, _BETWEEN),
        checkpoint_save="saving checkpoints",
    ),
    *_costs("host", _T.CPU_COMPUTATION, (Phase.EVALUATION,), validation="evaluation"),
    *_costs(
        "host",
        _T.CPU_BOUND,
        (*_COMPUTE, _BETWEEN),
        gil="waiting for the interpreter lock that other Python threads hold",
    ),
    *_costs(
        "host",
        _T.CPU_BOUND,
        (*_COMPUTE, Phase.INPUT_WAIT),
        oversubscription="running more threads than there are CPUs",
    ),
    *_costs("host", _T.CPU_BOUND, (), busy_machine="waiting for CPUs that other programs use"),
    *_costs("host", _T.MEMORY_ALLOCATION, (), swap="swapping memory"),
    *_costs("host", _T.CPU_BOUND, (Phase.GC,), (0.01, 0.10), gc="garbage collection"),
    *_costs(
        "host",
        _T.SYNCHRONIZATION,
        (_BETWEEN,),
        (0.03, 0.15),
        device_sync="waiting for the GPU in every step",
    ),
    *_costs(
        "ranks",
        _T.SYNCHRONIZATION,
        (*_COMPUTE, _BETWEEN),
        (0.03, 0.15),
        communication="communication between ranks",
        straggler="waiting for slow ranks",
    ),
    # A block of code without a training loop in it.
    *_others("block", _COMMON, cpu_bound=_T.CPU_BOUND),
    *_others(
        "memory",
        _COMMON,
        leak=_T.MEMORY_ALLOCATION,
        cycle_garbage=_T.MEMORY_ALLOCATION,
        fragmentation=_T.MEMORY_ALLOCATION,
    ),
    # Of the limit: from there on the next larger batch is the last one.
    *_others("memory", (0.92, 0.97), memory_pressure=_T.MEMORY_ALLOCATION),
    # Seen while training goes on: what changed, not what a step is made of.
    *_others(
        "live",
        _COMMON,
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
KINDS: dict[str, Kind] = {kind.name: kind for kind in _ALL}
