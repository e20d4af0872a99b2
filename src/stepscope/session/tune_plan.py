"""Memory instead of time: a checkpoint plan, found and measured in the program's own steps."""

from __future__ import annotations

from pathlib import Path

from stepscope.errors import UsageError
from stepscope.model.change import Change
from stepscope.model.checkpoint_plan import PlanReport
from stepscope.model.trial import Speedup, Trial, Tuning, Verdict
from stepscope.session.bench import ProgramBench
from stepscope.store.plan_file import write_plan

__all__ = ["plan_memory"]


def plan_memory(bench: ProgramBench, memory: str, target: Path) -> Tuning:
    """The plan goes into `target`. UsageError: there is none."""
    report = bench.plan(memory)
    if report is None:
        raise UsageError("There is no plan: the program ended before some 75 steps were seen.")
    write_plan(target, report.plan)
    change = Change("plan", _title(report), {"path": str(target)}, _expected(report))
    saved = 1.0 - report.measured.peak_bytes / report.baseline.peak_bytes
    kept = bool(report.plan.segments) and saved > 0
    trial = Trial(
        change=change,
        verdict=Verdict.FASTER if kept else Verdict.NO_GAIN,
        why="" if kept else "it saves nothing",
        measured=_measured(report),
        kept=kept,
        runs=(report.measured.steps, report.baseline.steps),
    )
    return Tuning(
        base_step_s=report.baseline.step_ms / 1e3,
        trials=(trial,),
        kept=(change,) if kept else (),
        speedup=trial.measured,
        notes=report.notes,
        saved_memory=saved,
    )


def _title(report: PlanReport) -> str:
    count = len(report.plan.segments)
    return f"Recompute {count} part{'s' * (count != 1)} of the model in backward"


def _expected(report: PlanReport) -> tuple[float, float] | None:
    if not report.predicted.step_ms:
        return None
    speedup = report.baseline.step_ms / report.predicted.step_ms
    return (speedup, speedup)


def _measured(report: PlanReport) -> Speedup | None:
    """Of a step: below 1, for recomputing takes time."""
    found = report.measured
    if found.ratio is None or found.ratio_low is None or found.ratio_high is None:
        return None
    return Speedup(1.0 / found.ratio, 1.0 / found.ratio_high, 1.0 / found.ratio_low)
