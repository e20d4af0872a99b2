"""What a BottleneckProfiler found: one bottleneck, and a session with all of them.

None: not measured. MB are 2**20 bytes, as in the source specifications.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any

from stepscope.model.metrics import PerformanceMetrics
from stepscope.model.strict_json import strict_json
from stepscope.model.types import BottleneckType

__all__ = ["BottleneckProfile", "ProfilingSession"]


@dataclass(frozen=True, kw_only=True)
class BottleneckProfile:
    """Something that stood in the way, and how far.

    severity: 0 to 1; of time, from its share of the session; of memory, from how far the threshold
        was passed and for how long. The source document has constants here.
    frequency: how often: runs of an operation, times that a threshold was crossed.
    execution_time: seconds in all; of a threshold, how long it was exceeded.
    memory_usage, gpu_memory_usage: the most, in MB. cpu_usage: percent of the CPUs it may use.
    share: of the session's time, what it calls under other names not included.
    optimization_potential: 0 to 1, the share of the session that could be saved (0.3: three tenths
        less time at best). Of an operation: if the same work kept all CPUs busy that the program
        may use. Of a finding: what its recommendation is expected to gain at best. None: not known.
    confidence: 0 to 1. Of an operation: how far its CPU use speaks for the type that the program
        gave it. Of memory: how much of it was this process's. Of a finding: how well the evidence
        separates this cause from others. None: nothing that was measured tells.
    """

    bottleneck_type: BottleneckType
    operation_name: str
    severity: float
    frequency: int = 1
    execution_time: float | None = None
    memory_usage: float | None = None
    gpu_memory_usage: float | None = None
    cpu_usage: float | None = None
    suggestions: tuple[str, ...] = ()
    optimization_potential: float | None = None
    share: float | None = None
    confidence: float | None = None
    evidence: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON."""
        plain = {"suggestions": list(self.suggestions), "evidence": list(self.evidence)}
        flat = asdict(self) | plain | {"bottleneck_type": self.bottleneck_type.value}
        return dict(strict_json(flat))


@dataclass(frozen=True, kw_only=True)
class ProfilingSession:
    """From `start_profiling_session` to its stop; while it goes on, `end_time` is None.

    performance_metrics: figures of the whole session by name.
    bottlenecks: the worst first.
    memory_profile: seconds since the start → percent of the machine's memory that was taken.
    gpu_profile: the same of the fullest GPU; empty where there is none.
    operations: what each operation took, by its name.
    verdict: the training loop's, where one ran within the session; "" otherwise.
    """

    session_id: str
    start_time: datetime
    end_time: datetime | None = None
    performance_metrics: Mapping[str, float | None] = field(default_factory=dict)
    bottlenecks: tuple[BottleneckProfile, ...] = ()
    memory_profile: Mapping[float, float] = field(default_factory=dict)
    gpu_profile: Mapping[float, float] = field(default_factory=dict)
    operations: Mapping[str, PerformanceMetrics] = field(default_factory=dict)
    verdict: str = ""
    notes: tuple[str, ...] = ()

    @property
    def duration(self) -> float | None:
        """Seconds; None while it goes on."""
        if self.end_time is None:
            return None
        return (self.end_time - self.start_time).total_seconds()

    def by_type(self) -> dict[str, list[BottleneckProfile]]:
        """Bottlenecks by the value of their type, in the order of the worst of each."""
        groups: dict[str, list[BottleneckProfile]] = {}
        for one in self.bottlenecks:
            groups.setdefault(one.bottleneck_type.value, []).append(one)
        return groups

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON."""
        plain = {
            "session_id": self.session_id,
            "start_time": self.start_time.isoformat(),
            "end_time": None if self.end_time is None else self.end_time.isoformat(),
            "duration_s": self.duration,
            "verdict": self.verdict,
            "performance_metrics": dict(self.performance_metrics),
            "bottlenecks": [one.to_dict() for one in self.bottlenecks],
            "memory_profile": [list(point) for point in self.memory_profile.items()],
            "gpu_profile": [list(point) for point in self.gpu_profile.items()],
            "operations": {name: one.to_dict() for name, one in self.operations.items()},
            "notes": list(self.notes),
        }
        return dict(strict_json(plain))
