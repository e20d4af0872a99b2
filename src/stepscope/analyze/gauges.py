"""Readings of a process and its machine → how full they were over time."""

from __future__ import annotations

from stepscope.analyze.series import Series
from stepscope.model.watching import Reading

__all__ = ["Gauges"]


class Gauges:
    """Keeps the readings of a session as series, which are empty without one. Seconds count from
    `start_ns`."""

    def __init__(self, start_ns: int) -> None:
        self.start_ns = start_ns
        self.memory = Series(max)  # share of the machine's memory that is taken
        self.rss = Series(max)  # bytes that are held
        self.cpu = Series(lambda a, b: (a + b) / 2)  # share of the CPUs that were busy
        self.read = Series(lambda _, later: later)  # bytes, since the process began
        self.written = Series(lambda _, later: later)
        self._gpus: dict[str, Series] = {}
        self._kept = {
            "host_memory_ratio": self.memory,
            "memory_bytes": self.rss,
            "host_cpu_ratio": self.cpu,
            "disk_read_bytes_total": self.read,
            "disk_write_bytes_total": self.written,
        }

    def reading(self, reading: Reading) -> None:
        if reading.metric == "gpu_memory_ratio":
            series = self._gpus.setdefault(reading.label, Series(max))
        elif reading.metric in self._kept:
            series = self._kept[reading.metric]
        else:
            return
        series.update(reading.time_ns, reading.value)

    @property
    def gpu(self) -> Series:
        """Share of the fullest GPU's memory; empty without a GPU."""
        return max(self._gpus.values(), key=_most, default=Series(max))

    def seconds(self, series: Series, scale: float = 1.0) -> dict[float, float]:
        """Seconds since the start → value."""
        points = series.points(0, 1 << 62)
        return {(time_ns - self.start_ns) / 1e9: value * scale for time_ns, value in points}


def _most(series: Series) -> float:
    return max(value for _, value in series.points(0, 1 << 62))
