"""Memory, CPUs, disk and GPU at this moment, for those who ask. None: it cannot be read here."""

from __future__ import annotations

from typing import Any, NamedTuple

from stepscope.collect.gpu import usable_cuda

__all__ = [
    "GpuMemory",
    "MachineMemory",
    "cpu_count",
    "cpu_frequency_mhz",
    "cpu_times_s",
    "gpu_memory",
    "io_bytes",
    "machine_memory",
]


class MachineMemory(NamedTuple):
    total_bytes: int
    available_bytes: int


class GpuMemory(NamedTuple):
    """Of the current GPU, as torch's allocator sees it."""

    allocated_bytes: int
    reserved_bytes: int
    total_bytes: int


def machine_memory() -> MachineMemory:
    import psutil

    memory = psutil.virtual_memory()
    return MachineMemory(memory.total, memory.available)


def cpu_times_s() -> tuple[float, float]:
    """Of all CPUs together since the machine started: busy, and busy or idle."""
    import psutil

    times = psutil.cpu_times()._asdict()
    for counted_twice in ("guest", "guest_nice"):  # they are in user and nice as well
        times.pop(counted_twice, None)
    idle_s = times.get("idle", 0.0) + times.get("iowait", 0.0)
    total_s = sum(times.values())
    return total_s - idle_s, total_s


def cpu_count() -> int | None:
    import psutil

    return psutil.cpu_count()


def cpu_frequency_mhz() -> float | None:
    import psutil

    try:
        frequency: Any = psutil.cpu_freq()
    except (OSError, NotImplementedError, AttributeError, RuntimeError):  # virtual machines
        return None
    return float(frequency.current) if frequency is not None else None


def io_bytes() -> tuple[int, int] | None:
    """What this process has read from disks and written to them since it began."""
    import psutil

    try:
        counters = psutil.Process().io_counters()
    except (AttributeError, psutil.Error):
        return None
    return counters.read_bytes, counters.write_bytes


def gpu_memory() -> GpuMemory | None:
    cuda = usable_cuda()
    if cuda is None:
        return None
    device = cuda.current_device()
    return GpuMemory(
        cuda.memory_allocated(device),
        cuda.memory_reserved(device),
        cuda.get_device_properties(device).total_memory,
    )
