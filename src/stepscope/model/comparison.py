"""Two groups of runs side by side: what `stepscope compare` tells, and what `history` follows."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

__all__ = [
    "METRICS",
    "Comparison",
    "FigureRow",
    "Judgement",
    "Metric",
    "Outcome",
    "PhaseRow",
    "Ratio",
    "RunFigures",
    "metric",
    "percent_change",
]


class Metric(NamedTuple):
    """A figure of a run."""

    key: str
    title: str
    unit: str  # "ms", "/s" or "bytes"
    decides: bool = False  # whether compare judges by it
    more_is_better: bool = False
    follows_speed: bool = False  # of the machine


METRICS = (
    # Only 1 % of the steps take less: what a step takes when nothing disturbs it.
    Metric("fast", "undisturbed step", "ms", decides=True, follows_speed=True),
    # Its wall clock over its steps: saves, pauses, all of it. Waiting for a CPU is in it too, and
    # that does not follow the speed of the machine: taken off, it made more false alarms.
    Metric("loop", "loop, per step", "ms", decides=True),
    Metric("step", "median step", "ms"),
    Metric("p95", "95th percentile", "ms"),
    Metric("throughput", "throughput", "/s", more_is_better=True),
    Metric("memory", "peak memory", "bytes", decides=True),
    Metric("startup", "start-up", "ms"),
)


def metric(key: str) -> Metric:
    """The metric of that name."""
    return next(one for one in METRICS if one.key == key)


@dataclass(frozen=True)
class RunFigures:
    """What one run is compared by."""

    name: str
    path: str
    started_unix: float | None = None
    steps: int = 0
    reference_us: float | None = None  # how fast the machine was: what the same work took
    figures: Mapping[str, float] = field(default_factory=dict)  # by key; absent: not measured
    phases: Mapping[str, float] = field(default_factory=dict)  # ms a step
    kind: str = ""  # of its first finding
    verdict: str = ""  # the title of it
    about: Mapping[str, str] = field(default_factory=dict)  # what should be alike in both groups
    remarks: tuple[str, ...] = ()  # why its figures may mislead, one sentence each


class Ratio(NamedTuple):
    """new / base. low, high: the interval that it lies in; None: too few runs for one.

    by: "runs"; "pairs" where runs that followed one another were compared, because neighbours
    resembled each other; "speed" where it is the ratio at equal speed of the machine.
    """

    middle: float
    low: float | None = None
    high: float | None = None
    by: str = "runs"


def percent_change(ratio: float) -> str:
    """
    >>> percent_change(1.05), percent_change(0.5), percent_change(0.99999)
    ('+5.0 %', '-50.0 %', '+0.0 %')
    """
    return f"{round((ratio - 1) * 100, 1) + 0.0:+.1f} %"  # never -0.0


class Judgement(enum.StrEnum):
    """What a figure says."""

    WORSE = "worse"  # proved
    BETTER = "better"  # proved
    SAME = "same"  # a change for the worse as large as asked for is ruled out
    UNCLEAR = "unclear"


class FigureRow(NamedTuple):
    """A figure in both groups, a typical run of each. judgement None: nothing is judged by it."""

    metric: Metric
    base: float | None
    new: float | None
    ratio: Ratio | None
    judgement: Judgement | None = None


class PhaseRow(NamedTuple):
    """Where the time of a step goes, a typical run of each group."""

    phase: str
    base_ms: float
    new_ms: float
    base_share: float
    new_share: float
    ratio: Ratio | None


class Outcome(enum.StrEnum):
    """What compare says in the end."""

    REGRESSION = "regression"
    IMPROVEMENT = "improvement"
    NO_CHANGE = "no change"
    INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True)
class Comparison:
    """Everything that was compared. `reasons` say in words why the outcome is what it is."""

    base: tuple[RunFigures, ...]
    new: tuple[RunFigures, ...]
    fail_over: float  # 0.05: a change for the worse by 5 % is to be found
    confidence: float  # of each interval
    outcome: Outcome
    reasons: tuple[str, ...]
    rows: tuple[FigureRow, ...]
    phases: tuple[PhaseRow, ...]
    verdicts: tuple[str, str] = ("", "")  # what most runs of each group suffer from
    warnings: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON."""
        return {
            "schema": 1,
            "outcome": self.outcome.value,
            "reasons": list(self.reasons),
            "fail_over": self.fail_over,
            "confidence": self.confidence,
            "figures": [_row_to_dict(row) for row in self.rows],
            "phases": [
                row._asdict() | {"ratio": row.ratio and row.ratio._asdict()} for row in self.phases
            ],
            "verdicts": {"base": self.verdicts[0], "new": self.verdicts[1]},
            "warnings": list(self.warnings),
            "base": [asdict(run) for run in self.base],
            "new": [asdict(run) for run in self.new],
        }


def _row_to_dict(row: FigureRow) -> dict[str, Any]:
    return {
        "metric": row.metric.key,
        "unit": row.metric.unit,
        "base": row.base,
        "new": row.new,
        "ratio": row.ratio and row.ratio._asdict(),
        "judgement": row.judgement and row.judgement.value,
    }
