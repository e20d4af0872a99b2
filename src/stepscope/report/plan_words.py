"""What a checkpoint plan comes to, in words."""

from __future__ import annotations

from collections.abc import Iterator

from stepscope.model.checkpoint_plan import BlockCost, PlanReport
from stepscope.report.units import duration

__all__ = ["blocks_by_worth", "plan_verdict", "size"]


def size(count: int) -> str:
    """
    >>> size(104_331_540), size(2_345_000_000)
    ('104.3 MB', '2.345 GB')
    """
    return f"{count / 1e9:,.3f} GB" if count >= 1e9 else f"{count / 1e6:,.1f} MB"


def plan_verdict(report: PlanReport) -> Iterator[str]:
    """Sentences, the most important one first."""
    plan, base = report.plan, report.baseline
    budget = plan.budget_bytes
    if not plan.segments:
        yield f"Nothing needs to be recomputed: the peak of {size(base.peak_bytes)} fits as it is."
        return
    after = report.measured
    saved = 1 - after.peak_bytes / base.peak_bytes
    more_ms = after.step_ms - base.step_ms
    parts = len(plan.segments)
    fits = "" if budget is None else f", within {size(budget)}"
    if budget is not None and after.peak_bytes > budget:
        fits = f", which is {size(after.peak_bytes - budget)} more than asked for"
    yield (
        f"Recompute {parts} {'segment' if parts == 1 else 'segments'}: the peak falls from"
        f" {size(base.peak_bytes)} to {size(after.peak_bytes)} (-{saved * 100:.0f} %){fits}; a step"
        f" takes {_more(more_ms, base.step_ms)}."
    )
    yield f"No plan gets below {size(report.smallest_peak_bytes)}."


def _more(more_ms: float, base_ms: float) -> str:
    share = more_ms / base_ms * 100 if base_ms else 0.0
    if more_ms < 0:
        return f"{duration(-more_ms)} less ({share:.1f} %)"
    return f"{duration(more_ms)} more (+{share:.1f} %)"


def blocks_by_worth(report: PlanReport) -> list[BlockCost]:
    """What saves most for its time first."""
    return sorted(
        report.blocks, key=lambda one: (not one.is_planned, -(one.bytes_per_ms or float("inf")))
    )
