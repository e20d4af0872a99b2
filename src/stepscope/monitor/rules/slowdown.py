"""Ordinary steps take longer than they did."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from stepscope.model.phases import Phase
from stepscope.model.watching import Condition, StepSeen
from stepscope.monitor.judge import severity
from stepscope.monitor.rule import Rule
from stepscope.monitor.rule_settings import Slowdown
from stepscope.monitor.words import duration, percent
from stepscope.stats.quantiles import median
from stepscope.stats.slowdown import SlowdownDetector

__all__ = ["SlowdownRule"]

_KEPT: Final = 128  # steps, whose phases are compared
_FEWEST: Final = 8  # before the change, to compare with
_TOLD: Final = 3  # phases that grew
_ODD: Final = 2.0  # times the median: a step of its own kind, which says little about phases
_PART: Final = 0.1  # of the growth, from which on a phase is named


class _Grown(NamedTuple):
    """A phase, in seconds a step."""

    phase: str
    before_s: float
    after_s: float

    @property
    def by_s(self) -> float:
        return self.after_s - self.before_s


class _Rank:
    """began: the first slow step, while it is slow. grown: phases that took more, most first."""

    def __init__(self, least: float) -> None:
        self.detector = SlowdownDetector(least)
        self.steps: deque[StepSeen] = deque(maxlen=_KEPT)
        self.count = 0  # steps that the detector was told
        self.began: StepSeen | None = None
        self.grown: list[_Grown] = []

    def update(self, seen: StepSeen) -> None:
        self.detector.update(_own_s(seen))
        self.steps.append(seen)
        self.count += 1
        if not self.detector.is_slow:
            self.began = None
        elif self.began is None:
            self._began()

    def _began(self) -> None:
        steps = list(self.steps)
        place = max(0, len(steps) - (self.count - self.detector.began))
        self.began = steps[min(place, len(steps) - 1)]
        # A drift began before what is kept: its ends are compared.
        cut = place if place >= _FEWEST else len(steps) // 4
        self.grown = _grown(steps[:cut], steps[max(cut, place) :])


class SlowdownRule(Rule):
    """Severity: from the share of the time that is lost against the usual, by the kind's
    thresholds, and how long that lasts. Confidence: the detector's, of noise not explaining it."""

    def __init__(self, settings: Slowdown) -> None:
        self._settings = settings
        self._ranks: dict[int, _Rank] = {}

    def step(self, seen: StepSeen) -> None:
        if seen.is_special:
            return
        rank = self._ranks.get(seen.rank)
        if rank is None:
            rank = self._ranks[seen.rank] = _Rank(self._settings.over)
        rank.update(seen)

    def conditions(self, now_ns: int) -> Iterator[Condition]:
        for rank in self._ranks.values():
            usual_s, level_s = rank.detector.usual, rank.detector.level
            if rank.began is not None and usual_s is not None and level_s is not None:
                yield _condition(rank, rank.began, usual_s, level_s, now_ns)


def _condition(
    rank: _Rank, began: StepSeen, usual_s: float, level_s: float, now_ns: int
) -> Condition:
    ratio = max(1.0, level_s / usual_s)
    lost = 1.0 - 1.0 / ratio
    lasted_s = (now_ns - began.start_ns) / 1e9
    is_input = bool(rank.grown) and rank.grown[0].phase == Phase.INPUT_WAIT
    before = (
        f"A step takes {duration(level_s)} since step {began.number}, and took {duration(usual_s)};"
        " evaluation and saves are set aside."
    )
    return Condition(
        rule="slowdown",
        key=f"rank {began.rank}",
        kind="slowdown",
        title=f"Steps take {percent(ratio - 1.0)} longer than usual",
        severity=severity("slowdown", lost, lasted_s),
        confidence=rank.detector.confidence,
        began_ns=began.start_ns,
        share=lost,
        evidence=(before, *(_sentence(one) for one in rank.grown)),
        missing=() if rank.grown else ("No phase of the steps grew by itself.",),
        measures={
            "ratio": ratio,
            "usual_step_s": usual_s,
            "step_s": level_s,
            **{f"grown_s.{one.phase}": one.by_s for one in rank.grown},
        },
        rank=began.rank,
        step=began.number,
        metric="step_seconds",
        value=level_s,
        limit=usual_s,
        group="input" if is_input else "speed",
        asks="kinds:input" if is_input else _asks(rank.grown),
    )


def _asks(grown: Sequence[_Grown]) -> str:
    return f"phase:{grown[0].phase}" if grown else ""


def _sentence(one: _Grown) -> str:
    return f"{one.phase}: {duration(one.before_s)} → {duration(one.after_s)} a step"


def _own_s(seen: StepSeen) -> float:
    """Without our own closer looks."""
    return (seen.duration_ns - seen.phases_ns.get(Phase.PROFILING, 0)) / 1e9


def _grown(before: Sequence[StepSeen], after: Sequence[StepSeen]) -> list[_Grown]:
    """The phases that have most of the growth, most first; those with little of it left out."""
    earlier, later = _means_s(before), _means_s(after)
    found = [
        _Grown(phase, earlier.get(phase, 0.0), later_s)
        for phase, later_s in later.items()
        if phase != Phase.PROFILING
    ]
    found = sorted((one for one in found if one.by_s > 0.0), key=lambda one: -one.by_s)
    total_s = sum(one.by_s for one in found)
    return [one for one in found[:_TOLD] if one.by_s >= _PART * total_s]


def _means_s(steps: Sequence[StepSeen]) -> dict[str, float]:
    usual_ns = median(seen.duration_ns for seen in steps) or 0.0
    plain = [seen for seen in steps if seen.duration_ns <= _ODD * usual_ns]
    phases = {phase for seen in plain for phase in seen.phases_ns}
    return {
        phase: sum(seen.phases_ns.get(phase, 0) for seen in plain) / len(plain) / 1e9
        for phase in phases
    }
