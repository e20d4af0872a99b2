"""What a program took with and without a change, and what became of the change."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from stepscope.model.change import Applied, Change

__all__ = ["Measurement", "Outcome", "Speedup", "Trial", "Tuning", "Verdict"]


class Outcome(enum.StrEnum):
    """How a run of the program ended. All but the first are results too, not accidents."""

    MEASURED = "measured"
    NOT_APPLIED = "not applied"  # the change found nothing to change, or refused
    CRASHED = "crashed"
    HUNG = "hung"
    OUT_OF_MEMORY = "out of memory"
    TOO_MUCH_MEMORY = "too much memory"  # more than it was allowed: ended by us
    NO_STEPS = "no steps"  # it ended before there was anything to measure


@dataclass(frozen=True, slots=True)
class Measurement:
    """One run of the program.

    step_s: wall clock of a step, the first ones left out; None unless it was measured. losses: in
    order. peak_bytes: of all its processes together. foreign_cores: CPUs that other programs used
    meanwhile; pressure: share of the time in which something that was ready had no CPU.
    """

    outcome: Outcome
    why: str = ""
    step_s: float | None = None
    steps: int = 0
    losses: tuple[float, ...] = ()
    dtype: str = "float32"  # of most of the model
    peak_bytes: int | None = None
    foreign_cores: float = 0.0
    pressure: float | None = None
    applied: tuple[Applied, ...] = ()
    took_s: float = 0.0  # the whole run, its start included


class Speedup(NamedTuple):
    """How many times as fast, with the interval that it lies in. rounds: in which both ways took
    turns, where they did."""

    middle: float
    low: float
    high: float
    rounds: int = 0

    def is_proved(self, least_gain: float) -> bool:
        """Faster beyond doubt, and by enough to matter."""
        return self.low > 1.0 and self.middle >= least_gain

    def __str__(self) -> str:
        return f"{self.middle:.2f} times as fast ({self.low:.2f} to {self.high:.2f})"


class Verdict(enum.StrEnum):
    """What is known of a change."""

    FASTER = "faster"
    NO_GAIN = "no gain"  # it is known not to be worth it
    INCONCLUSIVE = "inconclusive"  # more runs would be needed
    FAILED = "failed"  # it does not run, or the results are not the same
    NOT_TRIED = "not tried"  # it has to be allowed first, or there was no time


@dataclass(frozen=True, slots=True)
class Trial:
    """A change that was tried. measured: None where it could not be. runs: of it and of the base.

    kept: it is part of the result. why: in words, for whichever it is.
    """

    change: Change
    verdict: Verdict
    why: str
    measured: Speedup | None = None
    kept: bool = False
    runs: tuple[int, int] = (0, 0)
    applied: tuple[Applied, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        speedup = self.measured
        return {
            "change": self.change.to_dict(),
            "predicted": self.change.predicted,
            "measured": speedup
            and {"speedup": speedup.middle, "low": speedup.low, "high": speedup.high},
            "verdict": self.verdict.value,
            "kept": self.kept,
            "why": self.why,
            "runs": list(self.runs),
        }


@dataclass(frozen=True, slots=True)
class Tuning:
    """What tuning a program came to. speedup: of all that is kept together, against the program as
    it is; None: nothing is kept."""

    base_step_s: float | None = None
    trials: tuple[Trial, ...] = ()
    kept: tuple[Change, ...] = ()
    speedup: Speedup | None = None
    notes: tuple[str, ...] = ()
    saved_memory: float | None = None  # share of the tensors' peak that a plan saves
    applied: tuple[Applied, ...] = field(default=())  # of what is kept, in its last run

    def to_dict(self) -> dict[str, Any]:
        speedup = self.speedup
        return {
            "base": {"step_s": self.base_step_s},
            "trials": [trial.to_dict() for trial in self.trials],
            "kept": [change.name for change in self.kept],
            "changes": [change.to_dict() for change in self.kept],
            "speedup": speedup and speedup.middle,
            "interval": speedup and [speedup.low, speedup.high],
            "saved_memory": self.saved_memory,
            "notes": list(self.notes),
        }
