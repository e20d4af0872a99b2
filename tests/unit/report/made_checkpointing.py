"""Checkpointing made by hand: six blocks of 5 ms and 16 MB, one poor layer, and a plan."""

from __future__ import annotations

from stepscope.model.checkpoint_details import CheckpointedLayer, Checkpointing
from stepscope.model.checkpoint_plan import (
    CHEAP,
    BlockCost,
    CheckpointPlan,
    Outcome,
    PlanPoint,
    PlanReport,
    Segment,
)
from stepscope.model.finding import Location

LINE = Location("/home/ada/train.py", 20, "Net.forward")
MIB = 1 << 20


def layer(name: str, ms: float = 5.0, saved: float | None = 16e6) -> CheckpointedLayer:
    return CheckpointedLayer(name, LINE, 1.0, ms, saved)


def made_checkpointing(
    saved: float | None = 16e6, poor: bool = False, plan: PlanReport | None = None
) -> Checkpointing:
    """Of 50 steps of 101 ms (tests/unit/analyze/made_evidence.py)."""
    layers = [layer("head", 5.0, 1e6)] if poor else []
    layers += [layer(f"blocks.{number}", saved=saved) for number in range(6)]
    known = [one.saved_bytes for one in layers if one.saved_bytes is not None]
    recompute_ms = sum(one.recompute_ms for one in layers)
    return Checkpointing(
        layers=tuple(layers),
        recompute_ms=recompute_ms,
        share=recompute_ms / 101,
        steps=50,
        saved_bytes=sum(known) if len(known) == len(layers) else None,
        plan=plan,
    )


def made_plan() -> PlanReport:
    segments = (Segment("blocks.0"), Segment("blocks.1", CHEAP))
    curve = tuple(
        PlanPoint(peak_bytes=(900 - 75 * count) * MIB, step_ms=100.0 + 5.5 * count, segments=count)
        for count in range(7)
    )
    blocks = tuple(
        BlockCost(Segment(f"blocks.{n}"), (60 + 10 * n) * MIB, 4.0 + n, n < 2, is_present=True)
        for n in range(6)
    )
    return PlanReport(
        plan=CheckpointPlan(segments, budget_bytes=760 * MIB),
        baseline=Outcome(900 * MIB, 100.0, steps=20),
        present=Outcome(480 * MIB, 138.0, 1.31, 1.44, 20),
        predicted=Outcome(750 * MIB, 111.0),
        measured=Outcome(752 * MIB, 112.4, 1.10, 1.15, 20),
        curve=curve,
        blocks=blocks,
        smallest_peak_bytes=450 * MIB,
        notes=("The program's own checkpoints recompute more than this budget asks for.",),
    )
