"""What a block of code was limited by, where no training loop ran in it: findings from its use."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from stepscope.analyze.judge import likely, own_part, separation, severity
from stepscope.analyze.operations import OperationUse
from stepscope.analyze.words import bytes_text, percent
from stepscope.model.finding import Finding
from stepscope.model.kinds import KINDS

__all__ = ["Thresholds", "block_findings"]

# An empty block computes this little: what is measured is our own start and stop.
_LEAST_CPU_NS = 5_000_000


class Thresholds(NamedTuple):
    """Percent of a resource from which on it is named."""

    cpu: float
    memory: float
    gpu: float


def block_findings(use: OperationUse, thresholds: Thresholds) -> list[Finding]:
    """What was in the way, the largest share of the time first; [] when nothing was."""
    if not use.wall_ns:
        return []
    found = [
        *_computing(use, thresholds),
        *_gpu(use, thresholds),
        *_waiting_for_cpu(use),
        *_waiting_for_disk(use),
        *_memory(use, thresholds),
    ]
    return sorted(found, key=lambda finding: -finding.share)


def _computing(use: OperationUse, thresholds: Thresholds) -> Iterator[Finding]:
    """One CPU wanted all the time is the limit of code that runs in one thread.

    A thread that is ready and has no CPU counts as computing, not as waiting: other programs can
    take its CPU away, but they do not make it less CPU-bound.
    """
    cores = _cpu_ns(use) / use.wall_ns
    delay = use.resources.program.run_delay_cores or 0.0
    share = min(1.0, cores + delay)
    if share * 100 < thresholds.cpu or _cpu_ns(use) < _LEAST_CPU_NS:
        return
    cpus = use.resources.cpu_count
    of = f" of {cpus:g}" if cpus else ""
    title = f"CPU-bound: it computed {percent(min(1.0, cores))} of the time"
    if share - cores >= KINDS["oversubscription"].moderate_share:
        title += f" and waited for a CPU {percent(share - cores)}"
    yield Finding(
        kind="cpu-bound",
        title=title,
        share=share,
        severity=severity("cpu-bound", share),
        confidence=separation(share),
        evidence=(f"It kept {cores:.1f}{of} CPUs busy; the threshold is {thresholds.cpu:g} %.",),
        missing=("Which lines it goes to was not measured.",),
        measures={"cpu_cores": cores, "run_delay_cores": delay},
    )


def _cpu_ns(use: OperationUse) -> float:
    return use.user_ns + use.system_ns + (use.living_cpu_ns or 0.0)


def _gpu(use: OperationUse, thresholds: Thresholds) -> Iterator[Finding]:
    for gpu in use.resources.gpus:
        if gpu.busy_share is not None and gpu.busy_share * 100 >= thresholds.gpu:
            yield Finding(
                kind="compute",
                title=f"GPU-bound: GPU {gpu.index} was busy {percent(gpu.busy_share)} of the time",
                share=gpu.busy_share,
                severity=severity("compute", gpu.busy_share),
                confidence=separation(gpu.busy_share),
                evidence=(f"The threshold is {thresholds.gpu:g} %.",),
                measures={"gpu_busy_share": gpu.busy_share},
            )
        used, total = gpu.memory_used_bytes, gpu.memory_total_bytes
        if used is not None and total and used / total * 100 >= thresholds.memory:
            own = gpu.reserved_bytes or gpu.allocated_bytes
            yield _pressure(f"GPU {gpu.index}", used, total, own, thresholds.memory)


def _waiting_for_cpu(use: OperationUse) -> Iterator[Finding]:
    delay = use.resources.program.run_delay_cores
    cpu_ns = use.user_ns + use.system_ns
    cores = cpu_ns / use.wall_ns
    if cpu_ns < _LEAST_CPU_NS:
        return
    if not delay or not cores or delay / cores <= 0.3:  # field notes: run queue against CPU
        return
    share = min(1.0, delay)
    if share < KINDS["oversubscription"].moderate_share:  # idle code waits little, and runs less
        return
    yield Finding(
        kind="oversubscription",
        title=f"waiting for a CPU: {delay:.1f} threads were ready and had none",
        share=share,
        severity=severity("oversubscription", share),
        confidence=separation(delay / (delay + cores)),
        evidence=(f"Its threads ran {cores:.1f} s and waited {delay:.1f} s in every second.",),
        measures={"run_delay_cores": delay},
    )


def _waiting_for_disk(use: OperationUse) -> Iterator[Finding]:
    share = use.resources.program.blocked_io_share
    if share is None or share < KINDS["input-io"].moderate_share:
        return
    read = use.resources.program.read_bytes_per_s or 0.0
    yield Finding(
        kind="input-io",
        title=f"I/O-bound: it waited for a disk {percent(share)} of the time",
        share=share,
        severity=severity("input-io", share),
        confidence=separation(share),
        evidence=(f"It read {bytes_text(read)} a second from a disk.",),
        measures={"blocked_io_share": share},
    )


def _memory(use: OperationUse, thresholds: Thresholds) -> Iterator[Finding]:
    total, available = use.resources.memory_total_bytes, use.resources.memory_available_bytes
    if total and available is not None and (1 - available / total) * 100 >= thresholds.memory:
        used, own = total - available, use.peak_rss_bytes
        yield _pressure("the machine", used, total, own, thresholds.memory)


def _pressure(of: str, used: float, total: float, own: float | None, threshold: float) -> Finding:
    """Its share is of the bytes, not of the time. `own`: the most that this process held."""
    share = used / total
    return Finding(
        kind="memory-pressure",
        title=f"memory of {of}: {percent(share)} was taken",
        share=share,
        severity=severity("memory-pressure", share),
        confidence=likely(own_part(own, used)),  # the rest of it is other programs' memory
        evidence=(f"{bytes_text(used)} of {bytes_text(total)}; the threshold is {threshold:g} %.",),
        measures={"used_bytes": used},
    )
