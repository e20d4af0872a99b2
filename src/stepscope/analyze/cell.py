"""What a block used, and the loop that ran in it → what is shown under a notebook cell."""

from __future__ import annotations

from collections.abc import Sequence

from stepscope.analyze.operations import OperationUse
from stepscope.analyze.words import duration, percent
from stepscope.model.cell import Cell
from stepscope.model.finding import Finding
from stepscope.model.headline import headline
from stepscope.model.metrics import MB, PerformanceMetrics
from stepscope.model.summary import PhaseShare, Summary

__all__ = ["COMPUTING", "WAITING", "judge_cell"]

COMPUTING, WAITING = "computing", "waiting"
_SHORTEST_NS = 1_000_000  # less is over before anything could be seen


def judge_cell(
    use: OperationUse,
    metrics: PerformanceMetrics,
    loop: Summary,
    found: Sequence[Finding],
    error: str = "",
) -> Cell:
    """`loop`: of the training within it, if there was any; `found`: what was in the way."""
    if use.wall_ns < _SHORTEST_NS:
        took = f"It took {duration(use.wall_ns)}: too short to be judged."
        return Cell(name=metrics.operation, verdict=took, metrics=metrics, error=error)
    parts = tuple(part for part in loop.breakdown if part.ms > 0) or _parts(use, metrics)
    return Cell(
        name=metrics.operation,
        verdict=_verdict(use, found, parts),
        metrics=metrics,
        findings=tuple(found),
        parts=parts,
        steps=loop.steps,
        memory=_memory(use),
        error=error,
    )


def _verdict(use: OperationUse, found: Sequence[Finding], parts: Sequence[PhaseShare]) -> str:
    verdict = headline(found)
    if verdict is not None:
        return f"{verdict.title[:1].upper()}{verdict.title[1:]}."
    if not parts:
        return f"It took {duration(use.wall_ns)}; its CPU time was not measured."
    most = max(parts, key=lambda part: part.share)
    share, wall = percent(most.share), duration(use.wall_ns)
    if most.phase == WAITING:
        return f"It waited {share} of {wall}; what for was not measured."
    return f"It computed {share} of {wall}: no limit was reached."


def _parts(use: OperationUse, metrics: PerformanceMetrics) -> tuple[PhaseShare, ...]:
    """Several CPUs at once compute all of the time, not more."""
    if metrics.cpu_time is None:
        return ()
    wall_ms, cpu_ms = use.wall_ns / 1e6, metrics.cpu_time * 1e3
    busy_ms = min(wall_ms, cpu_ms)
    share = busy_ms / wall_ms
    both = (
        PhaseShare(COMPUTING, busy_ms, share, cpu_ms),
        PhaseShare(WAITING, wall_ms - busy_ms, 1 - share, 0.0),
    )
    return tuple(part for part in both if part.ms > 0)


def _memory(use: OperationUse) -> tuple[tuple[float, float], ...]:
    start_ns = use.stretches[0][0] if use.stretches else 0
    return tuple(((time_ns - start_ns) / 1e9, size / MB) for time_ns, size in use.memory)
