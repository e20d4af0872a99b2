"""Ordinary steps take longer than they did."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from stepscope.model.phases import Phase
from stepscope.model.watching import Condition, StepSeen
from stepscope.monitor.judge import severity
from stepscope.monitor.rule import Rule
from stepscope.monitor.rule_settings import Slowdown
from stepscope.monitor.steps import own_s
from stepscope.monitor.words import duration, percent
from stepscope.stats.quantiles import median
from stepscope.stats.slowdown import SlowdownDetector

__all__ = ["SlowdownRule"]

_KEPT: Final = 128  # steps, whose phases are compared
_FEWEST: Final = 8  # before the change, to compare with
_TOLD: Final = 3  # phases that grew
_AGAIN: Final = 8  # steps between two looks at what is not confirmed yet
_CONFIRMED: Final = 0.8  # of the least slow-down, by which all steps since are slower
_ERRORS: Final = 2.5  # standard errors
_BLOCK: Final = 8  # neighbours
_BLOCKS: Final = 6  # of them, to tell how much they differ
_LEVEL: Final = 15  # steps that tell what a step takes now
_WAITING: Final = 0.9  # of the severity, where a rank waits for another
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
    """began: the first slow step, while it is slow. grown: phases that took more, most first.
    is_confirmed: all steps since are slower than those before, by their means."""

    def __init__(self, least: float) -> None:
        self.detector = SlowdownDetector(least)
        self.began: StepSeen | None = None
        self.grown: list[_Grown] = []
        self.is_confirmed = False
        self._least = least
        self._steps: deque[StepSeen] = deque(maxlen=_KEPT)
        self._before: list[StepSeen] = []
        self._count = 0  # steps that the detector was told

    def update(self, seen: StepSeen) -> None:
        self.detector.update(own_s(seen))
        self._steps.append(seen)
        self._count += 1
        if not self.detector.is_slow:
            self.began, self.is_confirmed = None, False
        elif self.began is None:
            self._begin()
        elif not self.is_confirmed and self._count % _AGAIN == 0 and self._since < _KEPT:
            self._compare()

    @property
    def level_s(self) -> float:
        """Of a step now. From those since it began: the detector's window reaches further back."""
        last = list(self._steps)[-min(_LEVEL, self._since) :]
        return median(map(own_s, last)) or 0.0

    @property
    def _since(self) -> int:
        """Steps since it began."""
        return max(1, self._count - self.detector.began)

    def _begin(self) -> None:
        """What was before. Of a drift that began before what is kept: the oldest of that."""
        steps = list(self._steps)
        place = max(0, len(steps) - self._since)
        self.began = steps[place]
        self._before = _plain(steps[: place if place >= _FEWEST else len(steps) // 4])
        self._compare()

    def _compare(self) -> None:
        after = _plain(list(self._steps)[-self._since :])
        self.grown = _grown(_means_s(self._before), _means_s(after))
        self.is_confirmed = _is_slower(
            list(map(own_s, self._before)), list(map(own_s, after)), _CONFIRMED * self._least
        )


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
        slow = [rank for rank in self._ranks.values() if rank.is_confirmed]
        has_cause = any(not _only_waits(rank) for rank in slow)
        for rank in slow:
            usual_s = rank.detector.usual
            if rank.began is not None and usual_s:
                waits = has_cause and _only_waits(rank)
                yield _condition(rank, rank.began, usual_s, now_ns, waits=waits)


def _only_waits(rank: _Rank) -> bool:
    """It is the backward pass that grew: there ranks wait for each other."""
    return not rank.grown or rank.grown[0].phase == Phase.BACKWARD


def _condition(
    rank: _Rank, began: StepSeen, usual_s: float, now_ns: int, *, waits: bool
) -> Condition:
    level_s = rank.level_s
    ratio = max(1.0, level_s / usual_s)
    lost = 1.0 - 1.0 / ratio
    is_input = bool(rank.grown) and rank.grown[0].phase == Phase.INPUT_WAIT
    before = (
        f"A step takes {duration(level_s)} since step {began.number}, and took {duration(usual_s)};"
        " evaluation and saves are set aside."
    )
    how_bad = severity("slowdown", lost, (now_ns - began.start_ns) / 1e9)
    return Condition(
        rule="slowdown",
        key=f"rank {began.rank}",
        kind="slowdown",
        title=f"Steps take {percent(ratio - 1.0)} longer than usual",
        # The rank that others wait for is told of, not those.
        severity=how_bad * (_WAITING if waits else 1.0),
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
        group="speed",
        asks="kinds:input" if is_input else _asks(rank.grown),
    )


def _asks(grown: Sequence[_Grown]) -> str:
    return f"phase:{grown[0].phase}" if grown else ""


def _sentence(one: _Grown) -> str:
    return f"{one.phase}: {duration(one.before_s)} → {duration(one.after_s)} a step"


def _grown(before: Mapping[str, float], after: Mapping[str, float]) -> list[_Grown]:
    """The phases that have most of the growth, most first; those with little of it left out."""
    found = [
        _Grown(phase, before.get(phase, 0.0), after_s)
        for phase, after_s in after.items()
        if phase != Phase.PROFILING
    ]
    found = sorted((one for one in found if one.by_s > 0.0), key=lambda one: -one.by_s)
    total_s = sum(one.by_s for one in found)
    return [one for one in found[:_TOLD] if one.by_s >= _PART * total_s]


def _plain(steps: Sequence[StepSeen]) -> list[StepSeen]:
    usual_ns = median(seen.duration_ns for seen in steps) or 0.0
    return [seen for seen in steps if seen.duration_ns <= _ODD * usual_ns]


def _is_slower(before: Sequence[float], after: Sequence[float], least: float) -> bool:
    """By their means, by more than a share and more than their noise explains."""
    if len(before) < 2 or len(after) < 2:
        return False
    more = _mean(after) - _mean(before)
    error = math.sqrt(_variance(before) / len(before) + _variance(after) / len(after))
    return more >= max(least * _mean(before), _ERRORS * error)


def _variance(values: Sequence[float]) -> float:
    """Of a value, as it tells in means of many: more than its own where neighbours are alike."""
    blocks = [_mean(values[at : at + _BLOCK]) for at in range(0, len(values), _BLOCK)]
    of_blocks = _BLOCK * _own_variance(blocks) if len(blocks) >= _BLOCKS else 0.0
    return max(_own_variance(values), of_blocks)


def _own_variance(values: Sequence[float]) -> float:
    mean = _mean(values)
    return math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1)


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def _means_s(steps: Sequence[StepSeen]) -> dict[str, float]:
    """Of each phase, a step."""
    phases = {phase for seen in steps for phase in seen.phases_ns}
    return {
        phase: sum(seen.phases_ns.get(phase, 0) for seen in steps) / len(steps) / 1e9
        for phase in phases
    }
