"""Arms of a comparison: what a program is run with, and the runs so far."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from stepscope.model.change import Change
from stepscope.model.trial import Measurement, Outcome, Speedup, Verdict
from stepscope.tune.judge import judge

__all__ = ["Arm", "Candidate"]


@dataclass
class Arm:
    """The program with some changes. `figures_s`: of a step, one for each run that was measured."""

    changes: tuple[Change, ...]
    runs: list[Measurement] = field(default_factory=list)
    samples: float = 1.0  # how many times as many a step has

    @property
    def figures_s(self) -> list[float]:
        return [run.step_s / self.samples for run in self.runs if run.step_s is not None]


@dataclass
class Candidate:
    """A change beside the arm that it is compared with."""

    change: Change
    arm: Arm
    verdict: Verdict = Verdict.INCONCLUSIVE
    measured: Speedup | None = None
    why: str = ""
    doubt: str = ""  # why its losses seem to differ, though it may be for other random numbers
    is_left: bool = False  # there was not time enough for all, and others were more promising

    @property
    def is_open(self) -> bool:
        return self.verdict is Verdict.INCONCLUSIVE and not self.is_left

    def gain_so_far(self, base_s: Sequence[float]) -> float:
        """How many times as fast it looks, by the runs there are; as predicted where there is none;
        0: nothing is known."""
        figures = self.arm.figures_s
        if figures and base_s:
            return (sum(base_s) / len(base_s)) / (sum(figures) / len(figures))
        return self.change.predicted or 0.0

    def fail(self, why: str) -> None:
        self.verdict, self.why = Verdict.FAILED, why

    def take(self, run: Measurement) -> None:
        """A run with the change. One that cannot be measured is the end of it."""
        self.arm.runs.append(run)
        if run.outcome is not Outcome.MEASURED:
            self.fail(f"{run.outcome.value}{': ' if run.why else ''}{run.why}")

    def look(self, base_s: Sequence[float], least_gain: float) -> bool:
        """At all runs so far. True: it is faster, and stays open until the doubt is settled."""
        if self.verdict is not Verdict.FAILED:
            self.verdict, self.measured = judge(base_s, self.arm.figures_s, least_gain)
        if self.verdict is not Verdict.FASTER or not self.doubt:
            return False
        self.verdict = Verdict.INCONCLUSIVE
        return True
