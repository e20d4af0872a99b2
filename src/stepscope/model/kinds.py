"""The kinds of finding: one vocabulary, each mapped to a BottleneckType of the specifications."""

from __future__ import annotations

from dataclasses import dataclass

from stepscope.model.types import BottleneckType

__all__ = ["KINDS", "BottleneckType", "Kind"]


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of finding. `moderate_share` and `high_share`: from where on it is worth attention."""

    name: str
    group: str
    bottleneck_type: BottleneckType
    moderate_share: float
    high_share: float


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
            host_overhead=_T.CPU_BOUND,
            precision=_T.CPU_COMPUTATION,
            denormals=_T.CPU_COMPUTATION,
            layout=_T.CPU_COMPUTATION,
            recompute=_T.CPU_COMPUTATION,
            optimizer=_T.CPU_COMPUTATION,
        ),
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
            memory_pressure=_T.MEMORY_ALLOCATION,
        ),
    )
}
