"""What is shown under a notebook cell."""

from __future__ import annotations

from dataclasses import dataclass, field

from stepscope.model.finding import Finding
from stepscope.model.metrics import PerformanceMetrics
from stepscope.model.summary import PhaseShare, StepsSummary

__all__ = ["Cell"]


@dataclass(frozen=True, slots=True)
class Cell:
    """One run of a cell. `parts` are the phases of the training loop if one ran in it, otherwise
    computing and waiting; they add up to the time of the loop, or of the cell."""

    name: str
    verdict: str  # one sentence
    metrics: PerformanceMetrics
    findings: tuple[Finding, ...] = ()
    parts: tuple[PhaseShare, ...] = ()
    steps: StepsSummary = field(default_factory=StepsSummary)
    memory: tuple[tuple[float, float], ...] = ()  # (seconds since the start, MB)
    error: str = ""  # the kind of exception that ended it
