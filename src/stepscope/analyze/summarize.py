"""Everything that was found out about a run → its Summary."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from stepscope.analyze.coverage import coverage
from stepscope.analyze.loop import Loop
from stepscope.analyze.overhead import OwnCost, overhead
from stepscope.analyze.resources import Resources
from stepscope.analyze.warm_up import steady
from stepscope.analyze.whole import Whole
from stepscope.analyze.words import bytes_text, duration
from stepscope.model.finding import Finding
from stepscope.model.phases import Phase
from stepscope.model.summary import PhaseShare, RankSummary, StepsSummary, Summary
from stepscope.stats.quantiles import median, quantile, quantiles

if TYPE_CHECKING:
    from stepscope.model.metrics import PerformanceMetrics

__all__ = ["Recorded", "summarize"]

NOTABLE_SHARED_BYTES = 16 << 20


class Recorded(NamedTuple):
    """What the processes of the run recorded about themselves and about the host."""

    resources: Resources
    costs: Sequence[OwnCost]  # of each process of the program
    launcher: OwnCost
    events: int = 0  # of all processes of the program
    notes: Sequence[str] = ()  # what could not be read, one sentence each
    operations: Sequence[PerformanceMetrics] = ()
    reference_ns: Sequence[float] = ()  # how fast the machine was (collect/speed.py)


def summarize(
    run: Mapping[str, Any],
    loops: Sequence[Loop],
    recorded: Recorded,
    findings: Sequence[Finding],
) -> Summary:
    """The summary of a run. `loops`: one for each rank that had a loop; `findings`: advised."""
    whole = Whole(sorted(loops, key=lambda loop: loop.rank), recorded.resources)
    ranks = len(whole.loops)
    return Summary(
        run=run,
        steps=_steps(whole, recorded.reference_ns),
        wall_ms=whole.wall_ns / 1e6 / ranks if ranks else 0.0,
        startup_ms=_mean_ms([loop.startup_ns for loop in whole.loops]),
        tail_ms=_mean_ms([loop.tail_ns for loop in whole.loops]),
        breakdown=tuple(_phase(whole, phase) for phase in Phase) if ranks else (),
        findings=tuple(findings) if ranks else (),
        memory=_memory(recorded.resources),
        resources=recorded.resources.to_dict(),
        overhead=overhead(
            whole.wall_ns,
            recorded.costs,
            recorded.launcher,
            sum(one.calls or 0 for one in recorded.operations),
        ),
        coverage=coverage(
            whole,
            [*recorded.costs, recorded.launcher],
            recorded.events,
            recorded.notes,
            _operations_note(recorded.operations),
        ),
        ranks=tuple(_rank(loop) for loop in whole.loops),
        operations=tuple(recorded.operations),
    )


def _operations_note(operations: Sequence[PerformanceMetrics]) -> str:
    """What stands in for a verdict where no loop ran; "": no operations did either."""
    if not operations:
        return ""
    longest = operations[0]
    lasted = duration((longest.execution_time or 0.0) * 1e9)
    if len(operations) == 1:
        return f"No training loop ran. The one operation, {longest.operation}, took {lasted}."
    return (
        f"No training loop ran. The longest of {len(operations)} operations,"
        f" {longest.operation}, took {lasted}."
    )


def _steps(whole: Whole, reference_ns: Sequence[float]) -> StepsSummary:
    if not whole.loops:
        return StepsSummary()
    fast, middle, p95, longest = quantiles(
        (d for loop in whole.loops for d in loop.durations_ns), (0.01, 0.5, 0.95, 1.0)
    )
    reference = quantile(reference_ns, 0.05)
    after = [steady(loop) for loop in whole.loops]
    count = max(loop.steps for loop in whole.loops)
    wall_ns = whole.wall_ns / len(whole.loops)
    return StepsSummary(
        count=count,
        median_ms=middle / 1e6,
        fast_ms=fast / 1e6,
        p95_ms=p95 / 1e6,
        longest_ms=longest / 1e6,
        per_second=count * 1e9 / wall_ns if wall_ns else None,
        skipped=max(loop.skipped for loop in whole.loops),
        micro_batches=max(loop.micro_batches for loop in whole.loops),
        reference_us=None if reference is None else reference / 1e3,
        found_by=whole.loops[0].found_by.name.lower(),
        warm_up=max(loop.warm_up_steps for loop in after),
        warm_up_ms=_mean_ms([loop.warm_up_ns for loop in after]) or 0.0,
    )


def _phase(whole: Whole, phase: Phase) -> PhaseShare:
    ranks = len(whole.loops)
    cpu = [loop.phases[phase].cpu_ns for loop in whole.loops]
    known = [cpu_ns for cpu_ns in cpu if cpu_ns is not None]
    return PhaseShare(
        phase=str(phase),
        ms=whole.lasted(phase) / 1e6 / ranks,
        share=whole.lasted(phase) / whole.wall_ns if whole.wall_ns else 0.0,
        cpu_ms=sum(known) / 1e6 / ranks if len(known) == ranks else None,
    )


def _rank(loop: Loop) -> RankSummary:
    middle = median(loop.durations_ns)
    return RankSummary(
        rank=loop.rank,
        pid=loop.pid,
        steps=loop.steps,
        wall_ms=loop.wall_ns / 1e6,
        median_ms=None if middle is None else middle / 1e6,
        shares={str(phase): loop.share(phase) for phase in Phase},
    )


def _mean_ms(values_ns: Sequence[int]) -> float | None:
    return sum(values_ns) / len(values_ns) / 1e6 if values_ns else None


def _memory(resources: Resources) -> dict[str, Any]:
    return {
        "peak_rss_bytes": resources.program.peak_rss_bytes,
        "peak_shared_bytes": resources.program.peak_shared_bytes,
        "children_peak_rss_bytes": resources.children.peak_rss_bytes,
        "host_total_bytes": resources.memory_total_bytes,
        "host_least_available_bytes": resources.memory_available_bytes,
        "gpus": [
            {
                "index": gpu.index,
                "allocated_bytes": gpu.allocated_bytes,
                "reserved_bytes": gpu.reserved_bytes,
                "used_bytes": gpu.memory_used_bytes,
                "total_bytes": gpu.memory_total_bytes,
            }
            for gpu in resources.gpus
        ],
        "text": _memory_text(resources),
    }


def _memory_text(resources: Resources) -> str:
    peak = resources.program.peak_rss_bytes
    parts = []
    if peak is not None:
        of = resources.memory_total_bytes
        parts.append(
            f"the program held up to {bytes_text(peak)}" + (f" of {bytes_text(of)}" if of else "")
        )
    shared = resources.program.peak_shared_bytes
    if shared is not None and shared >= NOTABLE_SHARED_BYTES:
        parts.append(f"{bytes_text(shared)} of it shared with other processes")
    if resources.children.peak_rss_bytes is not None:
        parts.append(f"the largest child {bytes_text(resources.children.peak_rss_bytes)}")
    for gpu in resources.gpus:
        used = gpu.reserved_bytes or gpu.memory_used_bytes
        if used is not None:
            parts.append(f"GPU {gpu.index} {bytes_text(used)}")
    return ", ".join(parts) or "not measured"
