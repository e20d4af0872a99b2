"""What to do about an operation that the program named: by its type, and by how its time went."""

from __future__ import annotations

from stepscope.model.metrics import PerformanceMetrics
from stepscope.model.types import BottleneckType

__all__ = ["suggest", "suggest_memory"]

_T = BottleneckType
_WAITING = 0.5  # wants a CPU for less of its time than that: it waits more than it computes

_COMPUTING: dict[BottleneckType, str] = {
    _T.DATA_LOADING: "Let DataLoader workers make the batches: num_workers, persistent_workers",
    _T.PREPROCESSING: "Do it once and keep the result, on whole batches, or in DataLoader workers",
    _T.MEMORY_ALLOCATION: "Allocate once and write into it again: out=, in-place operations",
    _T.GPU_TRANSFER: "Copy while the device computes: pin_memory=True, non_blocking=True",
    _T.I_O_OPERATION: "It computes more than it waits: look at parsing and decompression",
    _T.NETWORK_LATENCY: "It computes more than it waits: look at what is done with the answers",
    _T.SYNCHRONIZATION: "It spins instead of sleeping: wait less often, or for longer",
}
_BLOCKED: dict[BottleneckType, str] = {
    _T.DATA_LOADING: "Fetch ahead: num_workers and prefetch_factor of the DataLoader",
    _T.PREPROCESSING: "It waits more than it computes: move reading out of it, and read ahead",
    _T.MEMORY_ALLOCATION: "Watch for swapping: it waits more than it computes",
    _T.GPU_TRANSFER: "Copy while the device computes: pin_memory=True, non_blocking=True",
    _T.CPU_COMPUTATION: "It waits more than it computes: look for locks, reads and device syncs",
    _T.CPU_BOUND: "It waits more than it computes: look for locks, reads and device syncs",
    _T.I_O_OPERATION: "Read fewer, larger pieces, keep them in memory, or read in another thread",
    _T.NETWORK_LATENCY: "Ask for several things at once, or keep the answers",
    _T.SYNCHRONIZATION: "Synchronise less often: every item() and print of a tensor waits",
}


def suggest(of: BottleneckType, metrics: PerformanceMetrics, cpus: float | None) -> tuple[str, ...]:
    """In order: what its type asks for, then what its use of the CPUs shows."""
    if not metrics.execution_time or metrics.cpu_time is None:
        return ()
    cores = (metrics.cpu_time + (metrics.cpu_wait_time or 0.0)) / metrics.execution_time
    found = []
    by_type = (_BLOCKED if cores < _WAITING else _COMPUTING).get(of)
    if by_type is not None:
        found.append(by_type)
    if cores >= _WAITING and 0.8 <= cores <= 1.2 and cpus and cpus >= 2:
        found.append(f"It keeps one of {cpus:g} CPUs busy: use several, by threads or workers")
    if of in (_T.CPU_COMPUTATION, _T.CPU_BOUND) and cores >= _WAITING:
        found.append("Measure torch.compile, a larger batch and lower precision, one at a time")
    if not found:
        what = "waits: find out what for" if cores < _WAITING else "computes: find the lines"
        found.append(f"It {what}, with enable_line_profiling=True of PerformanceProfiler")
    return tuple(found)


def suggest_memory(own_mb: float | None, taken_mb: float | None) -> tuple[str, ...]:
    """Memory is short: whose it is decides what helps."""
    if own_mb is not None and taken_mb and own_mb < taken_mb / 2:
        held = f"This process held {own_mb:,.0f} of {taken_mb:,.0f} MB"
        return (f"{held}: look at its workers and at other programs first",)
    return (
        "Take a smaller batch, and accumulate gradients over several",
        "Recompute activations instead of keeping them: torch.utils.checkpoint",
        "Use fewer workers and a smaller prefetch_factor",
    )
