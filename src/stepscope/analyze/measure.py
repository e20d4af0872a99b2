"""What an operation used → its metrics, with a note for each figure that could not be had."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from stepscope.analyze.operations import OperationUse, identity_name
from stepscope.analyze.resources import GpuUse, Resources
from stepscope.model.metrics import GB, MB, PerformanceMetrics

__all__ = ["Asked", "measure"]

_S = 1e9


class Asked(NamedTuple):
    """What the profiler was asked to find out, and what is known beside the trace."""

    gpu: bool = True
    leaks: bool = False
    flops: bool = False
    flops_reason: str = ""  # why there are none
    peak_flops_per_s: float | None = None  # of this machine, measured
    can_reset_peak: bool = True
    interval_s: float = 0.5


def measure(use: OperationUse, asked: Asked) -> PerformanceMetrics:
    """The metrics of an operation, over all its runs."""
    notes: list[str] = []
    wall_s = use.wall_ns / _S
    cpu = _cpu(use)
    gpu = _Gpu(use.resources.gpus, asked, notes)
    flops = _flops(use, asked, notes)
    rate = flops / wall_s if flops is not None and wall_s else None
    resources = use.resources
    network = _sum(resources.net_received_bytes_per_s, resources.net_sent_bytes_per_s)
    leaks, growth = _growth(use, asked, notes)
    return PerformanceMetrics(
        operation=identity_name(use.identity),
        calls=use.calls,
        failed_calls=use.failed,
        execution_time=wall_s,
        cpu_time=sum(cpu) / _S,
        user_time=cpu[0] / _S,
        system_time=cpu[1] / _S,
        cpu_wait_time=_scaled(resources.program.run_delay_cores, wall_s),
        gpu_time=None if gpu.busy_share is None else gpu.busy_share * wall_s,
        shortest_time=use.shortest_ns / _S if use.calls else None,
        longest_time=use.longest_ns / _S if use.calls else None,
        cpu_usage=_cpu_usage(sum(cpu), use),
        gpu_usage=_percent(gpu.busy_share),
        memory_usage=_scaled(use.final_rss_bytes, 1 / GB),
        initial_ram_mb=_scaled(use.initial_rss_bytes, 1 / MB),
        peak_ram_mb=_scaled(use.peak_rss_bytes, 1 / MB),
        final_ram_mb=_scaled(use.final_rss_bytes, 1 / MB),
        peak_gpu_mb=_scaled(gpu.peak_bytes, 1 / MB),
        peak_heap_mb=_scaled(resources.heap_peak_bytes, 1 / MB),
        memory_leak_detected=leaks,
        memory_growth_mb_per_s=growth,
        memory_method=_memory_method(use, asked),
        estimated_flops=flops,
        flops_per_second=rate,
        peak_flops_percent=None
        if rate is None or not asked.peak_flops_per_s
        else rate / asked.peak_flops_per_s * 100,
        host_cpu_percent=_percent(resources.cpu_busy_share),
        host_memory_percent=_memory_percent(resources),
        disk_io_percent=_percent(resources.disk_busy_share),
        network_io_mb=_scaled(network, _covered_s(use) / MB),
        disk_read_mb=_moved(use, "read_bytes_per_s"),
        disk_write_mb=_moved(use, "write_bytes_per_s"),
        notes=tuple(notes),
    )


def _cpu(use: OperationUse) -> tuple[float, float]:
    """User and system, in ns. What children that live on used counts too, as far as sampled."""
    living_ns = use.living_cpu_ns or 0.0
    user_ns = use.user_ns + living_ns - use.living_system_ns
    return max(0.0, user_ns), max(0.0, use.system_ns + use.living_system_ns)


def _cpu_usage(cpu_ns: float, use: OperationUse) -> float | None:
    """Percent of the CPUs that the process may use, while it ran; runs at once share them."""
    cpus, wall_ns = use.resources.cpu_count, use.wall_ns
    return min(100.0, cpu_ns / wall_ns / cpus * 100) if cpus and wall_ns else None


class _Gpu:
    """The GPUs of this process; where that is not known, all that the driver shows."""

    def __init__(self, gpus: Iterable[GpuUse], asked: Asked, notes: list[str]) -> None:
        self.busy_share: float | None = None
        self.peak_bytes: float | None = None
        if not asked.gpu:
            return
        all_of_them = list(gpus)
        if not all_of_them:
            notes.append("No GPU was seen: there are no figures of one.")
            return
        ours = [gpu for gpu in all_of_them if gpu.peak_allocated_bytes] or all_of_them
        busy = [gpu.busy_share for gpu in ours if gpu.busy_share is not None]
        peaks = [gpu.peak_allocated_bytes for gpu in ours if gpu.peak_allocated_bytes is not None]
        self.busy_share = sum(busy) / len(busy) if busy else None
        self.peak_bytes = sum(peaks) if peaks else None


def _flops(use: OperationUse, asked: Asked, notes: list[str]) -> int | None:
    if asked.flops and use.flops is None:
        notes.append(f"FLOPs: {asked.flops_reason or 'none of the runs could be counted.'}")
    return use.flops if asked.flops else None


def _growth(
    use: OperationUse, asked: Asked, notes: list[str]
) -> tuple[bool | None, float | None]:  # fmt: skip
    if not asked.leaks:
        return None, None
    from stepscope.analyze.growth import judge_growth

    growth = judge_growth([(time_ns / 1e9, size) for time_ns, size in use.memory])
    if growth.leaks is None:
        notes.append(f"Leaks: {growth.why}")
    return growth.leaks, _scaled(growth.slope, 1 / MB)


def _memory_method(use: OperationUse, asked: Asked) -> str | None:
    if use.peak_rss_bytes is None:
        return None
    if use.peak_is_exact:
        return "the kernel's high-water mark, reset when a run begins"
    why = (
        "runs were too short and frequent to read it" if asked.can_reset_peak else "not resettable"
    )
    return f"sampled every {asked.interval_s:g} s and at both ends (high-water mark: {why})"


def _memory_percent(resources: Resources) -> float | None:
    total, available = resources.memory_total_bytes, resources.memory_available_bytes
    return None if not total or available is None else (1 - available / total) * 100


def _covered_s(use: OperationUse) -> float:
    return sum(end_ns - start_ns for start_ns, end_ns in use.stretches) / _S


def _moved(use: OperationUse, rate: str) -> float | None:
    program, children = use.resources.program, use.resources.children
    rates = _sum(getattr(program, rate), getattr(children, rate))
    return _scaled(rates, _covered_s(use) / MB)


def _sum(*values: float | None) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _scaled(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor


def _percent(share: float | None) -> float | None:
    return _scaled(share, 100.0)
