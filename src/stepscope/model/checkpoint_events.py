"""What happened to activation checkpoints: events, the profile of a layer, and the summary.

Durations are milliseconds, as in the source document. It calls the summed sizes of checkpoints
"memory usage" and "memory saved" at once; these are two figures here:

- saved: what forward did not keep for backward, because it is computed again;
- in use: what the checkpoints themselves hold, from their creation to their release.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from stepscope.model.strict_json import strict_json

__all__ = [
    "CheckpointEvent",
    "CheckpointEventType",
    "LayerProfile",
    "MemoryThresholdExceeded",
    "ProfilingSummary",
    "RecomputationThresholdExceeded",
    "event_type",
    "format_bytes",
    "format_ms",
]


class CheckpointEventType(enum.Enum):
    """What can happen to a checkpoint. For types of your own pass any str instead of a member:
    `profiler.record_event("block.3", "offload", 0.8)`; they are counted by layer, by that name."""

    CHECKPOINT = "checkpoint"  # made: forward returned without keeping what it computed
    RECOMPUTE = "recompute"  # what was not kept was computed again
    RETRIEVE = "retrieve"  # it was still there: a hit of the recompute cache
    DEALLOCATE = "deallocate"  # let go


def event_type(text: str) -> CheckpointEventType | str:
    """The member of that value, or the type of the user's own."""
    try:
        return CheckpointEventType(text)
    except ValueError:
        return text


@dataclass(slots=True)
class CheckpointEvent:
    """One thing that happened to a checkpoint of a layer. event_type is a str for a type of your
    own."""

    layer_id: str = ""
    event_type: CheckpointEventType | str = CheckpointEventType.CHECKPOINT
    timestamp: datetime = field(default_factory=lambda: datetime.now(UTC))  # of its end
    duration_ms: float = 0.0
    memory_bytes: int = 0  # what a checkpoint saves
    held_bytes: int = 0  # change of the memory in use


@dataclass(slots=True)
class LayerProfile:
    """What checkpointing one layer cost and saved, summed over all its events."""

    layer_id: str = ""
    checkpoint_count: int = 0
    total_checkpoint_time_ms: float = 0.0
    recompute_count: int = 0
    total_recompute_time_ms: float = 0.0
    cache_hit_count: int = 0
    total_memory_saved: int = 0  # bytes, summed over all checkpoints: not all at one moment
    deallocation_count: int = 0
    measured_count: int = 0  # checkpoints whose savings were measured: 0 bytes of these are none
    custom_counts: dict[str, int] = field(default_factory=dict)  # by types of the user's own

    def record_event(self, event: CheckpointEvent) -> None:
        """Count it."""
        self.add(event.event_type, 1, event.duration_ms, event.memory_bytes)

    def add(
        self, kind: CheckpointEventType | str, count: int, total_ms: float, total_bytes: int
    ) -> None:
        """Count that many events at once."""
        match kind if isinstance(kind, CheckpointEventType) else event_type(kind):
            case CheckpointEventType.CHECKPOINT:
                self.checkpoint_count += count
                self.total_checkpoint_time_ms += total_ms
                self.total_memory_saved += total_bytes
            case CheckpointEventType.RECOMPUTE:
                self.recompute_count += count
                self.total_recompute_time_ms += total_ms
            case CheckpointEventType.RETRIEVE:
                self.cache_hit_count += count
            case CheckpointEventType.DEALLOCATE:
                self.deallocation_count += count
            case str(custom):
                self.custom_counts[custom] = self.custom_counts.get(custom, 0) + count

    @property
    def average_checkpoint_time_ms(self) -> float:
        """0: there was none."""
        count = self.checkpoint_count
        return self.total_checkpoint_time_ms / count if count else 0.0

    @property
    def average_recompute_time_ms(self) -> float:
        """0: there was none."""
        count = self.recompute_count
        return self.total_recompute_time_ms / count if count else 0.0

    @property
    def cache_hit_rate(self) -> float:
        """Cache hits for each checkpoint, 0 to 1. A checkpoint can be hit more than once, so the
        quotient of the source document is capped at 1."""
        if not self.checkpoint_count:
            return 0.0
        return min(1.0, self.cache_hit_count / self.checkpoint_count)

    @property
    def reuse_rate(self) -> float:
        """The share of cache hits among all activations that backward needed again, 0 to 1; the
        others were recomputed."""
        needed = self.cache_hit_count + self.recompute_count
        return self.cache_hit_count / needed if needed else 0.0

    def as_json(self) -> dict[str, Any]:
        return {
            "layer_id": self.layer_id,
            "checkpoint_count": self.checkpoint_count,
            "total_checkpoint_time_ms": self.total_checkpoint_time_ms,
            "average_checkpoint_time_ms": self.average_checkpoint_time_ms,
            "recompute_count": self.recompute_count,
            "total_recompute_time_ms": self.total_recompute_time_ms,
            "average_recompute_time_ms": self.average_recompute_time_ms,
            "cache_hit_count": self.cache_hit_count,
            "cache_hit_rate": self.cache_hit_rate,
            "reuse_rate": self.reuse_rate,
            "total_memory_saved": self.total_memory_saved,
            "deallocation_count": self.deallocation_count,
            "measured_count": self.measured_count,
            "custom_counts": dict(self.custom_counts),
        }


@dataclass(frozen=True, slots=True)
class ProfilingSummary:
    """All events from the first to the last. `str()` of it is a report for people."""

    start_time: datetime  # of the first event
    end_time: datetime  # of the last one
    duration: float = 0.0  # ms from the one to the other
    total_events: int = 0
    total_checkpoint_time: float = 0.0  # ms
    total_recompute_time: float = 0.0  # ms
    total_memory_saved: int = 0  # bytes, summed over all checkpoints: not all at one moment
    layer_profiles: tuple[LayerProfile, ...] = ()
    memory_in_use_bytes: int = 0  # that checkpoints hold now
    peak_memory_in_use_bytes: int = 0
    # The most that was not kept at one moment, right after a recomputation: checkpointing lowers
    # the peak by this at most. 0 also where checkpoints were only told of by hand.
    peak_memory_saved_bytes: int = 0
    # By how much it lowers the peak of tensors, measured over the first eight backward passes;
    # less than 0: it is higher with it. None: not measured (not on the CPU, or somebody else
    # measures memory).
    peak_reduction_bytes: int | None = None
    # The recomputation engine could recompute ahead on a stream of the device, and does not.
    can_recompute_ahead: bool = False
    analyses: Mapping[str, Any] = field(default_factory=dict)  # results of plugins, by their names

    def __str__(self) -> str:
        by_saved = sorted(self.layer_profiles, key=lambda one: -one.total_memory_saved)
        lines = [
            "Checkpoint Profiling Summary",
            "============================",
            f"Duration: {self.duration:.2f}ms",
            f"Total Events: {self.total_events}",
            f"Total Checkpoint Time: {_number(self.total_checkpoint_time)}ms",
            f"Total Recompute Time: {_number(self.total_recompute_time)}ms",
            f"Total Memory Saved: {format_bytes(self.total_memory_saved)}",
            "",
            "Layer Profiles:",
            "===============",
            *(line for profile in by_saved for line in _layer_lines(profile)),
            *self._further_lines(),
        ]
        return "\n".join(lines) + "\n"

    def _further_lines(self) -> Iterable[str]:
        """What the source document does not have, where there is something to say."""
        if self.peak_memory_in_use_bytes:
            now, most = self.memory_in_use_bytes, self.peak_memory_in_use_bytes
            yield ""
            yield f"Memory In Use: {format_bytes(now)} now, {format_bytes(most)} at most"
        if self.peak_memory_saved_bytes:
            yield f"Not Kept At Most: {format_bytes(self.peak_memory_saved_bytes)}"
        if self.peak_reduction_bytes is not None:
            how = "lower" if self.peak_reduction_bytes >= 0 else "higher"
            size = format_bytes(abs(self.peak_reduction_bytes))
            yield f"Peak Of Memory: {size} {how} than without checkpoints"
        for profile in self.layer_profiles:
            for kind, count in profile.custom_counts.items():
                yield f"Custom Events: {count} of '{kind}' in {profile.layer_id}"
        for name, result in self.analyses.items():
            yield f"Analysis {name}: {result}"

    def as_json(self) -> dict[str, Any]:
        return {
            "start_time": self.start_time.astimezone(UTC).isoformat(),
            "end_time": self.end_time.astimezone(UTC).isoformat(),
            "duration": self.duration,
            "total_events": self.total_events,
            "total_checkpoint_time": self.total_checkpoint_time,
            "total_recompute_time": self.total_recompute_time,
            "total_memory_saved": self.total_memory_saved,
            "memory_in_use_bytes": self.memory_in_use_bytes,
            "peak_memory_in_use_bytes": self.peak_memory_in_use_bytes,
            "peak_memory_saved_bytes": self.peak_memory_saved_bytes,
            "peak_reduction_bytes": self.peak_reduction_bytes,
            "can_recompute_ahead": self.can_recompute_ahead,
            "layer_profiles": [profile.as_json() for profile in self.layer_profiles],
            "analyses": strict_json(self.analyses),
        }


@dataclass(frozen=True, slots=True)
class MemoryThresholdExceeded:
    """Checkpoints hold more memory than the threshold of a monitor."""

    current_memory_usage: int  # bytes in use now
    threshold: int  # bytes
    timestamp: datetime


@dataclass(frozen=True, slots=True)
class RecomputationThresholdExceeded:
    """Recomputing has taken longer, in all, than the threshold of a monitor."""

    current_recompute_time: float  # ms
    threshold: float  # ms
    timestamp: datetime


def format_bytes(count: int) -> str:
    """`512B`, `1.50KB`, `2.00MB`, `3.25GB`, in steps of 1024."""
    if count < 1024:
        return f"{count}B"
    for power, unit in ((1, "KB"), (2, "MB")):
        if count < 1024 ** (power + 1):
            return f"{count / 1024**power:.2f}{unit}"
    return f"{count / 1024**3:.2f}GB"


def format_ms(duration_ms: float) -> str:
    """`250ms`, `1.5s`, `2.0m`."""
    if duration_ms < 1000:
        return f"{_number(duration_ms)}ms"
    if duration_ms < 60_000:
        return f"{duration_ms / 1000:.1f}s"
    return f"{duration_ms / 60_000:.1f}m"


def _number(value: float) -> str:
    """Whole where it is whole, as the source document has it; else two decimals."""
    return f"{value:.0f}" if value == int(value) else f"{value:.2f}"


def _layer_lines(profile: LayerProfile) -> tuple[str, ...]:
    return (
        f"{profile.layer_id}:",
        f"  Checkpoints: {profile.checkpoint_count}",
        f"  Avg Checkpoint Time: {profile.average_checkpoint_time_ms:.2f}ms",
        f"  Recomputations: {profile.recompute_count}",
        f"  Avg Recompute Time: {profile.average_recompute_time_ms:.2f}ms",
        f"  Cache Hit Rate: {profile.cache_hit_rate:.2%}",
        f"  Memory Saved: {format_bytes(profile.total_memory_saved)}",
    )
