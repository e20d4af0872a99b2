"""MemoryTracker, GPUTracker, CPUTracker, IOTracker: what is used now, and over a session.

What cannot be measured is 0.0, as in the source document: a GPU without memory, a CPU without a
frequency. What a session saw comes from the recorder: between `start_session` and `stop_session`
its sampler looks every 0.1 s.
"""

from __future__ import annotations

from stepscope.model.metrics import GB, MB
from stepscope.session import trackers
from stepscope.session.trackers import Tracking

__all__ = ["CPUTracker", "GPUTracker", "IOTracker", "MemoryTracker"]

Stats = dict[str, float]


class _Tracker:
    """`session_stats`: the samples of the last session, each with its seconds since the start."""

    def __init__(self, tracking: Tracking | None = None) -> None:
        self._tracking = Tracking() if tracking is None else tracking

    def start_session(self) -> None:
        """Begin to watch."""
        self._tracking.start()

    def stop_session(self) -> list[Stats]:
        """End, and what was seen."""
        self._tracking.stop()
        return self.session_stats

    @property
    def session_stats(self) -> list[Stats]:
        """So far, or of the whole when it has ended; [] when there was none."""
        return []

    def _samples(self, **series: tuple[str, float]) -> list[Stats]:
        """`series`: name in the result → (name in the gauges, scale); by the first one's times."""
        gauges = self._tracking.gauges
        if gauges is None:
            return []
        found = {name: (getattr(gauges, of), scale) for name, (of, scale) in series.items()}
        first = next(iter(found.values()))[0]
        times_ns = [time_ns for time_ns, _ in first.points(0, 1 << 62)]
        return [
            {"timestamp": (at_ns - gauges.start_ns) / 1e9}
            | {
                name: one.at(at_ns) * scale if one.last_ns else 0.0
                for name, (one, scale) in found.items()
            }
            for at_ns in times_ns
        ]


class MemoryTracker(_Tracker):
    """Memory of this process and of the machine."""

    def get_current_memory(self) -> float:
        """What this process holds of the machine's memory, in MB."""
        now = trackers.rss_bytes()
        return 0.0 if now is None else now / MB

    def get_current_stats(self) -> Stats:
        """used_mb: this process. The others: the machine, whoever uses it."""
        memory = trackers.machine_memory()
        return {
            "used_mb": self.get_current_memory(),
            "used_percent": (1 - memory.available_bytes / memory.total_bytes) * 100,
            "available_gb": memory.available_bytes / GB,
            "total_gb": memory.total_bytes / GB,
        }

    @property
    def session_stats(self) -> list[Stats]:
        return self._samples(memory_mb=("rss", 1 / MB), memory_percent=("memory", 100.0))


class GPUTracker(_Tracker):
    """Memory of the current GPU that torch holds; 0.0 where there is none."""

    def get_current_memory(self) -> float:
        """What torch has allocated, in MB."""
        return self.get_current_stats()["memory_mb"]

    def get_current_stats(self) -> Stats:
        """Without a GPU there are the first two keys only, as in the source document."""
        found = trackers.gpu_memory()
        if found is None:
            return {"memory_mb": 0.0, "memory_used_percent": 0.0}
        return {
            "memory_mb": found.allocated_bytes / MB,
            "memory_used_percent": found.allocated_bytes / found.total_bytes * 100,
            "reserved_mb": found.reserved_bytes / MB,
            "total_gb": found.total_bytes / GB,
        }

    @property
    def session_stats(self) -> list[Stats]:
        """memory_percent: of the fullest GPU, by whomever; [] without one."""
        return self._samples(memory_percent=("gpu", 100.0))


class CPUTracker(_Tracker):
    """The CPUs of the machine."""

    def __init__(self, tracking: Tracking | None = None) -> None:
        super().__init__(tracking)
        self._before = trackers.cpu_times_s()
        self._usage = 0.0

    def get_current_usage(self) -> float:
        """Percent of all CPUs that were busy since the last time it was asked, the first time since
        the tracker was made. The kernel counts every 10 ms: asked again before that, it tells the
        same again, and 0.0 the first time."""
        busy_s, total_s = trackers.cpu_times_s()
        passed_s = total_s - self._before[1]
        if passed_s > 0:
            self._usage = min(100.0, max(0.0, (busy_s - self._before[0]) / passed_s * 100))
            self._before = busy_s, total_s
        return self._usage

    def get_current_stats(self) -> Stats:
        """frequency_mhz: 0.0 where the machine does not show it."""
        frequency, count = trackers.cpu_frequency_mhz(), trackers.cpu_count()
        return {
            "usage_percent": self.get_current_usage(),
            "count": count or 0,
            "frequency_mhz": frequency or 0.0,
        }

    @property
    def session_stats(self) -> list[Stats]:
        return self._samples(usage_percent=("cpu", 100.0))


class IOTracker(_Tracker):
    """What this process reads from disks and writes to them; what the kernel had cached is none."""

    def __init__(self, tracking: Tracking | None = None) -> None:
        super().__init__(tracking)
        self._before = self._look()
        self._usage = 0.0

    def _look(self) -> tuple[float, float]:
        """(now, bytes both ways)"""
        found = trackers.io_bytes()
        return trackers.now_s(), 0.0 if found is None else float(sum(found))

    def get_current_usage(self) -> float:
        """MB a second since the last time it was asked, the first time since it was made."""
        now_s, moved = self._look()
        if now_s > self._before[0]:
            self._usage = (moved - self._before[1]) / MB / (now_s - self._before[0])
            self._before = now_s, moved
        return self._usage

    def get_current_stats(self) -> Stats:
        """Since the process began, and now."""
        found = trackers.io_bytes()
        read, written = (0, 0) if found is None else found
        return {
            "read_mb": read / MB,
            "write_mb": written / MB,
            "mb_per_second": self.get_current_usage(),
        }

    @property
    def session_stats(self) -> list[Stats]:
        return self._samples(read_mb=("read", 1 / MB), write_mb=("written", 1 / MB))
