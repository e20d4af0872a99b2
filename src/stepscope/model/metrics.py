"""What was measured about a block of code: one flat value, and groups of it for reading.

None means that it was not measured, and `notes` say why; it never means zero. MB and GB are 2**20
and 2**30 bytes, as in the source specifications.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Annotated, Any

from stepscope.model.kinds import BottleneckType
from stepscope.model.plain import AnyNumber, Range, from_plain
from stepscope.model.strict_json import strict_json

__all__ = [
    "GB",
    "MB",
    "ComputeMetrics",
    "MemoryMetrics",
    "PerformanceMetrics",
    "SystemMetrics",
    "TimingMetrics",
]

MB, GB = 2**20, 2**30


@dataclass(frozen=True, slots=True)
class MemoryMetrics:
    """Memory of this process; `peak_gpu_mb`: of torch's allocator, all GPUs of this process."""

    initial_ram_mb: float | None = None
    peak_ram_mb: float | None = None
    final_ram_mb: float | None = None
    peak_gpu_mb: float | None = None
    memory_leak_detected: bool | None = None  # None: nobody looked, or there was too little to see


@dataclass(frozen=True, slots=True)
class TimingMetrics:
    """Seconds, over all runs. CPU time is that of this process, whoever else runs in it, and of its
    children: with operations in several threads at once, each sees the CPU time of all."""

    wall_time_s: float | None = None
    cpu_time_s: float | None = None
    user_time_s: float | None = None
    system_time_s: float | None = None


@dataclass(frozen=True, slots=True)
class ComputeMetrics:
    """`cpu_utilization_percent`: of the CPUs that this process may use, by it and its children.
    `peak_flops_percent`: of what a matrix product reached on this machine."""

    estimated_flops: int | None = None
    flops_per_second: float | None = None
    peak_flops_percent: float | None = None
    gpu_utilization_percent: float | None = None
    cpu_utilization_percent: float | None = None


@dataclass(frozen=True, slots=True)
class SystemMetrics:
    """The machine as a whole while the block ran, other programs included.

    disk_io_percent: how much of the time the busiest disk was busy.
    """

    cpu_percent: float | None = None
    memory_percent: float | None = None
    disk_io_percent: float | None = None
    network_io_mb: float | None = None
    disk_read_mb: float | None = None  # by this process and its children
    disk_write_mb: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PerformanceMetrics:
    """Of one operation, over all its runs. Times in seconds, `…_usage` of CPU and GPU in percent,
    `memory_usage` in GB at the end of the last run."""

    operation: str = ""
    calls: int | None = None
    failed_calls: int | None = None  # runs that an exception ended: their figures are partial
    execution_time: float | None = None
    cpu_time: float | None = None
    user_time: float | None = None
    system_time: float | None = None
    cpu_wait_time: float | None = None  # threads were ready and had no CPU; sampled
    gpu_time: float | None = None  # in which a GPU was busy
    shortest_time: float | None = None  # of one run
    longest_time: float | None = None
    cpu_usage: float | None = None
    gpu_usage: float | None = None
    memory_usage: float | None = None
    initial_ram_mb: float | None = None
    peak_ram_mb: float | None = None
    final_ram_mb: float | None = None
    peak_gpu_mb: float | None = None
    peak_heap_mb: float | None = None  # Python objects, as tracemalloc sees them
    memory_leak_detected: bool | None = None
    memory_growth_mb_per_s: float | None = None
    memory_method: str | None = None  # how the peak was found
    estimated_flops: Annotated[int, Range(0, 1e39)] | None = None
    flops_per_second: AnyNumber | None = None
    peak_flops_percent: float | None = None
    host_cpu_percent: float | None = None
    host_memory_percent: float | None = None
    disk_io_percent: float | None = None
    network_io_mb: float | None = None
    disk_read_mb: float | None = None
    disk_write_mb: float | None = None
    energy_joules: float | None = None
    energy_method: str | None = None  # "measured", "estimated (model)" or "unavailable"
    carbon_grams: float | None = None
    carbon_intensity: str | None = None  # which grid, and where the figure is from
    bottleneck_type: BottleneckType | None = None
    bottleneck_severity: float | None = None  # 0 to 1
    notes: tuple[str, ...] = ()  # what could not be measured, and why

    @property
    def is_partial(self) -> bool:
        """Some run was ended by an exception."""
        return bool(self.failed_calls)

    @property
    def memory(self) -> MemoryMetrics:
        return MemoryMetrics(**self._some(MemoryMetrics))

    @property
    def timing(self) -> TimingMetrics:
        return TimingMetrics(self.execution_time, self.cpu_time, self.user_time, self.system_time)

    @property
    def compute(self) -> ComputeMetrics:
        return ComputeMetrics(
            self.estimated_flops,
            self.flops_per_second,
            self.peak_flops_percent,
            gpu_utilization_percent=self.gpu_usage,
            cpu_utilization_percent=self.cpu_usage,
        )

    @property
    def system(self) -> SystemMetrics:
        return SystemMetrics(
            self.host_cpu_percent,
            self.host_memory_percent,
            self.disk_io_percent,
            self.network_io_mb,
            self.disk_read_mb,
            self.disk_write_mb,
        )

    def _some(self, group: type[Any]) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(group)}

    def to_dict(self) -> dict[str, Any]:
        """Strict JSON: the flat fields, and the groups `memory`, `timing`, `compute`, `system`."""
        kind = self.bottleneck_type
        flat = asdict(self) | {"bottleneck_type": kind and kind.value}
        groups = {name: asdict(getattr(self, name)) for name in _GROUPS}
        return dict(strict_json(flat | groups))

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> PerformanceMetrics:
        """What `to_dict` gave, again. Unknown keys are ignored. Raises FormatError."""
        made: PerformanceMetrics = from_plain(cls, dict(saved), "metrics")
        return made

    def summary(self) -> str:
        """One line for people.

        >>> PerformanceMetrics(peak_ram_mb=2458, execution_time=45.2, gpu_usage=78).summary()
        'Peak RAM: 2.4 GB, Wall Time: 45.2s, GPU Util: 78%'
        """
        parts = [
            *_part("Peak RAM", self.peak_ram_mb, _memory_text),
            *_part("Wall Time", self.execution_time, _time_text),
            *_part("GPU Util", self.gpu_usage, "{:.0f}%".format),
            *_part("CPU Util", self.cpu_usage, "{:.0f}%".format),
        ]
        if self.gpu_usage is not None:
            parts = parts[:3]
        text = ", ".join(parts) or "nothing was measured"
        return f"{text} (partial: an exception ended it)" if self.is_partial else text


_GROUPS = ("memory", "timing", "compute", "system")


def _part(title: str, value: float | None, text: Any) -> list[str]:
    return [] if value is None else [f"{title}: {text(value)}"]


def _memory_text(mb: float) -> str:
    return f"{mb / 1024:.1f} GB" if mb >= 1000 else f"{mb:.0f} MB"


def _time_text(seconds: float) -> str:
    return f"{seconds:.1f}s" if seconds >= 1 else f"{seconds * 1000:.3g}ms"
