"""The section about checkpointing of a page: what stands in it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from stepscope.model.checkpoint_details import CheckpointedLayer, Checkpointing
from stepscope.model.checkpoint_plan import CHEAP, BlockCost, Outcome, PlanReport, Segment
from stepscope.report.plan_chart import PlanChart, plan_chart
from stepscope.report.units import bytes_text, duration, percent

__all__ = ["CheckpointPanel", "PlanPanel", "PlanRow", "checkpoint_panel", "plan_rows", "told"]

_ROWS = 300


class PlanRow(NamedTuple):
    """A way to run the step, beside the one that keeps everything."""

    name: str
    how: str  # "measured over 20 steps", "predicted"
    outcome: Outcome
    peak_ratio: float | None  # to the peak of the baseline
    step_ratio: str  # to its step time; with its interval where that was measured


class PlanPanel(NamedTuple):
    chart: PlanChart
    rows: Sequence[PlanRow]
    planned: Sequence[str]
    smallest_peak_bytes: int
    blocks: Sequence[BlockCost]  # those that are most worth it first
    blocks_left_out: int
    notes: Sequence[str]


class CheckpointPanel(NamedTuple):
    told: str
    layers: Sequence[CheckpointedLayer]  # those that are least worth it first
    layers_left_out: int
    plan: PlanPanel | None


def checkpoint_panel(found: Checkpointing) -> CheckpointPanel:
    layers = found.layers[:_ROWS]
    plan = None if found.plan is None else _plan_panel(found.plan)
    return CheckpointPanel(told(found), layers, len(found.layers) - len(layers), plan)


def told(found: Checkpointing) -> str:
    """In one sentence; "" where nothing is recomputed."""
    if not found.layers:
        return ""
    saved = "an amount that was not measured"
    if found.saved_bytes is not None:
        saved = bytes_text(found.saved_bytes)
    return (
        f"{duration(found.recompute_ms)} of every step ({percent(found.share)}) compute activations"
        f" again, to save {saved}."
    )


def _plan_panel(report: PlanReport) -> PlanPanel:
    blocks = sorted(report.blocks, key=lambda one: -(one.bytes_per_ms or float("inf")))
    return PlanPanel(
        plan_chart(report),
        plan_rows(report),
        [_planned(segment) for segment in report.plan.segments],
        report.smallest_peak_bytes,
        blocks[:_ROWS],
        max(0, len(blocks) - _ROWS),
        report.notes,
    )


def _planned(segment: Segment) -> str:
    return f"{segment.label} (what is cheap)" if segment.recompute == CHEAP else segment.label


def plan_rows(report: PlanReport) -> list[PlanRow]:
    """Before and after."""
    named = [
        ("nothing recomputed", report.baseline),
        ("as the program stands", report.present),
        ("the plan", report.predicted),
        ("the plan", report.measured),
    ]
    return [_row(name, one, report.baseline) for name, one in named if one is not None]


def _row(name: str, outcome: Outcome, baseline: Outcome) -> PlanRow:
    how = f"measured over {outcome.steps:,} steps" if outcome.steps else "predicted"
    ratio = outcome.ratio
    if ratio is None and baseline.step_ms:
        ratio = outcome.step_ms / baseline.step_ms
    words = "" if ratio is None or outcome is baseline else f"{ratio:.3f}×"
    if words and outcome.ratio_low is not None and outcome.ratio_high is not None:
        words += f" ({outcome.ratio_low:.3f} to {outcome.ratio_high:.3f})"
    peak = outcome.peak_bytes / baseline.peak_bytes if baseline.peak_bytes else None
    return PlanRow(name, how, outcome, peak, words)
