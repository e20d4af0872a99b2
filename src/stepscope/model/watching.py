"""What a monitor is told, and what it asks back: the values between the live engine's parts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from stepscope.model.finding import Location, Recommendation

__all__ = ["Condition", "Crossing", "Explain", "Explained", "Reading", "StepSeen", "StepsPassed"]


class Reading(NamedTuple):
    """A value of a metric (model/metric_table.py, or one that the program told of).

    time_ns: monotonic clock. label: which of its series ("0" of a GPU, "backward" of a phase).
    """

    time_ns: int
    metric: str
    value: float
    label: str = ""
    rank: int = 0
    step: int | None = None


class Crossing(NamedTuple):
    """How often, how far and how long a limit was passed, since its metric was first read.

    beyond_ns: between readings that were beyond it, both of them: after one alone nothing is known.
    """

    limit: float
    times: int = 0  # it was crossed
    peak: float = 0.0  # of all readings, the farthest in the limit's direction
    beyond_ns: int = 0
    watched_ns: int = 0  # from the first reading to the last


class StepSeen(NamedTuple):
    """A step that is over. number: from 1. phases_ns: by name of the phase, adds up to its time.

    is_special: evaluation, a save or a start of workers fell into it: not to be held against
    ordinary ones.
    """

    rank: int
    number: int
    start_ns: int
    end_ns: int
    phases_ns: Mapping[str, int]
    is_special: bool = False

    @property
    def duration_ns(self) -> int:
        return self.end_ns - self.start_ns


class StepsPassed(NamedTuple):
    """Steps that are over and were counted, but not looked at. number, end_ns: of the last of them;
    the number may be a few too low."""

    rank: int
    number: int
    end_ns: int


@dataclass(frozen=True, slots=True)
class Condition:
    """What a rule sees at this moment. A Finding is made of it, and an Alert of that.

    rule and key together say which incident it is: a second one of the same is no news.
    group: incidents of one group that begin together are one alert ("" stands alone).
    asks: what a closer look should find: "stall" (where it stands), "phase:<name>" (who spends that
    phase's time, since `began_ns`), "kinds:<group>" (the dearest finding of that group now),
    "memory" (who holds more and more), "" (nothing).
    share, severity, confidence: as in Finding.
    """

    rule: str
    key: str
    kind: str
    title: str
    severity: float
    confidence: float
    began_ns: int
    share: float = 0.0
    evidence: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    measures: Mapping[str, float] = field(default_factory=dict)
    rank: int = 0
    step: int | None = None
    metric: str | None = None
    value: float | None = None
    limit: float | None = None
    group: str = ""
    asks: str = ""


class Explained(NamedTuple):
    """What a closer look found. kind: a more precise one than the condition's; "": the same."""

    kind: str = ""
    location: Location = Location()
    evidence: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    recommendation: Recommendation | None = None


class Explain(Protocol):
    """Looks closer, once, when a condition becomes an alert. Never raises."""

    def __call__(self, condition: Condition) -> Explained: ...
