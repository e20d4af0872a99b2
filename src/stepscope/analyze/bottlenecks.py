"""What a session measured → its bottlenecks, the worst first."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from stepscope.analyze.judge import graded, own_part
from stepscope.analyze.words import duration, percent, plural
from stepscope.model.bottlenecks import BottleneckProfile
from stepscope.model.finding import Finding
from stepscope.model.metrics import MB, PerformanceMetrics
from stepscope.model.types import BottleneckType
from stepscope.model.watching import Crossing

__all__ = [
    "OperationRecord",
    "finding_bottlenecks",
    "memory_bottleneck",
    "operation_bottlenecks",
    "worst_first",
]

_T = BottleneckType
_COMPUTING = frozenset({_T.CPU_COMPUTATION, _T.CPU_BOUND, _T.PREPROCESSING})
_WAITING = frozenset({_T.I_O_OPERATION, _T.NETWORK_LATENCY, _T.SYNCHRONIZATION})
_HIGH = 4.0  # times the threshold: as the kinds of finding have it, 5 % moderate and 20 % high


class OperationRecord(NamedTuple):
    """An operation of a session; `own_ns`: without the operations that ran within it."""

    name: str
    type: BottleneckType
    metrics: PerformanceMetrics
    own_ns: float


def operation_bottlenecks(
    records: Iterable[OperationRecord], session_ns: int, threshold: float
) -> Iterator[BottleneckProfile]:
    """Operations that took at least that share of the session by themselves."""
    for one in records:
        share = min(1.0, one.own_ns / session_ns) if session_ns else 0.0
        if share < threshold:
            continue
        metrics = one.metrics
        yield BottleneckProfile(
            bottleneck_type=one.type,
            operation_name=one.name,
            severity=graded(share, threshold, min(1.0, _HIGH * threshold)),
            frequency=metrics.calls or 0,
            execution_time=metrics.execution_time,
            memory_usage=metrics.peak_ram_mb,
            gpu_memory_usage=metrics.peak_gpu_mb,
            cpu_usage=metrics.cpu_usage,
            optimization_potential=_potential(share, metrics),
            share=share,
            confidence=_agreement(one),
            evidence=tuple(_evidence(one, share)),
        )


def _potential(share: float, metrics: PerformanceMetrics) -> float | None:
    """Share of the session that would be saved if the same work kept every CPU that the program may
    use busy (or every GPU, where that is more): waits overlap, one thread becomes many."""
    used = [part for part in (metrics.cpu_usage, metrics.gpu_usage) if part is not None]
    return share * (1.0 - min(100.0, max(used)) / 100) if used else None


def _agreement(one: OperationRecord) -> float | None:
    """How far its CPU use speaks for the type that the program gave: the share of its time in which
    it computed or wanted to, or the rest for types that wait; None: its type says neither."""
    metrics = one.metrics
    if metrics.cpu_time is None or not metrics.execution_time:
        return None
    wanted = metrics.cpu_time + (metrics.cpu_wait_time or 0.0)
    busy = min(1.0, wanted / metrics.execution_time)
    if one.type in _COMPUTING:
        return busy
    return 1.0 - busy if one.type in _WAITING else None


def _evidence(one: OperationRecord, share: float) -> Iterator[str]:
    runs = plural(one.metrics.calls or 0, "run")
    by_itself = f"{percent(share)} of the session ({duration(one.own_ns)} in {runs})"
    wall_ns = (one.metrics.execution_time or 0.0) * 1e9
    if wall_ns - one.own_ns > 0.01 * wall_ns:
        inner = duration(wall_ns - one.own_ns)
        yield f"By itself it took {by_itself}; another {inner} went to operations within it."
    else:
        yield f"It took {by_itself}."
    if one.metrics.cpu_time is not None and wall_ns:
        cores = one.metrics.cpu_time * 1e9 / wall_ns
        delay = (one.metrics.cpu_wait_time or 0.0) * 1e9 / wall_ns
        queued = f" and had {delay:.1f} threads wait for one" if delay >= 0.05 else ""
        waits = "" if cores + delay >= 0.5 else ": most of it was waiting"
        yield f"It kept {cores:.1f} CPUs busy{queued}{waits}."


def memory_bottleneck(
    name: str, of: str, found: Crossing, total_bytes: float | None, own_bytes: float | None
) -> BottleneckProfile | None:
    """A threshold, a share of memory, that was passed; None: it was not. What it cost in time was
    not measured. `own_bytes`: the most that this process held of it.

    Confidence: how much of the memory in use was this process's, as far as both are known: the rest
    belongs to other programs.
    """
    if not found.times:
        return None
    used_bytes = None if total_bytes is None else found.peak * total_bytes
    above, watched = duration(found.beyond_ns), duration(found.watched_ns)
    times = plural(found.times, "time")
    return BottleneckProfile(
        bottleneck_type=BottleneckType.MEMORY_ALLOCATION,
        operation_name=name,
        severity=_memory_severity(found),
        frequency=found.times,
        execution_time=found.beyond_ns / 1e9,
        memory_usage=None if used_bytes is None else used_bytes / MB,
        confidence=own_part(own_bytes, used_bytes),
        evidence=(
            f"Up to {percent(found.peak)} of {of} was taken.",
            (
                f"The threshold of {percent(found.limit)} was crossed {times}"
                f" and passed for {above} of {watched}."
            ),
        ),
    )


def _memory_severity(found: Crossing) -> float:
    """The mean of how far (0: the threshold was just reached; 1: nothing was left) and how long (as
    a share of the session)."""
    room = 1.0 - found.limit
    far = min(1.0, (found.peak - found.limit) / room) if room > 0 else 1.0
    long = min(1.0, found.beyond_ns / found.watched_ns) if found.watched_ns else 0.0
    return (far + long) / 2


def finding_bottlenecks(
    findings: Iterable[Finding],
    metrics: PerformanceMetrics,
    threshold: float,
    steps: int,
    named: bool = False,
) -> Iterator[BottleneckProfile]:
    """Findings of a training loop of so many steps, or of the session where there was none. The
    computation of a loop is what it is for, and no bottleneck; that of a session is none where
    `named` operations say what it went to."""
    has_parts = steps > 0 or named
    for found in findings:
        is_memory = found.kind == "memory-pressure"
        is_computing = found.kind in ("compute", "cpu-bound")
        if (has_parts and is_computing) or (found.share < threshold and not is_memory):
            continue
        advice = found.recommendation
        yield BottleneckProfile(
            bottleneck_type=found.bottleneck_type,
            operation_name=found.kind,
            severity=found.severity,
            frequency=max(1, steps),
            execution_time=None if is_memory else found.share * (metrics.execution_time or 0.0),
            memory_usage=metrics.peak_ram_mb,
            gpu_memory_usage=metrics.peak_gpu_mb,
            cpu_usage=metrics.cpu_usage,
            suggestions=() if advice is None else (f"{advice.title}: {advice.action}",),
            optimization_potential=None if is_memory else _saved(found),
            share=None if is_memory else found.share,
            confidence=found.confidence,
            evidence=(f"{found.title[:1].upper()}{found.title[1:]}.", *found.evidence),
        )


def _saved(found: Finding) -> float | None:
    """Share of the time that its recommendation is expected to save: the geometric mean of the
    range of its speed-up. None: not known."""
    advice = found.recommendation
    if advice is None or advice.expected_speedup is None:
        return None
    low, high = advice.expected_speedup
    return 1.0 - 1.0 / max(1.0, math.sqrt(low * high))


def worst_first(found: Iterable[BottleneckProfile]) -> tuple[BottleneckProfile, ...]:
    return tuple(sorted(found, key=lambda one: (-one.severity, one.operation_name)))
