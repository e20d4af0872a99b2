"""A rank that the others wait for."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator
from typing import Final, NamedTuple

from stepscope.model.phases import Phase
from stepscope.model.watching import Condition, StepSeen
from stepscope.monitor.gate import Gate
from stepscope.monitor.judge import severity
from stepscope.monitor.rule import Rule
from stepscope.monitor.rule_settings import RankBehind
from stepscope.monitor.words import duration, percent
from stepscope.stats.quantiles import median

__all__ = ["RankBehindRule"]

_BACK: Final = 0.7  # of the limit
_SURE: Final = 3.5  # median deviations from the others, where there are enough to tell (xprof)
_NORMAL: Final = 1.4826  # makes the median deviation of normal noise its standard deviation
_PHASES: Final = tuple(Phase)


class _Typical(NamedTuple):
    """Medians over the last steps of a rank, in seconds. own_s: all but the backward pass, in which
    ranks wait for each other."""

    step_s: float
    own_s: float
    backward_s: float


class _Rank:
    def __init__(self, settings: RankBehind) -> None:
        self.steps: deque[StepSeen] = deque(maxlen=max(3, settings.steps))
        self.gate = Gate(settings.over, settings.over * _BACK)
        self.is_new = False
        self._typical: _Typical | None = None

    @property
    def typical(self) -> _Typical | None:
        """None: too few steps yet."""
        if len(self.steps) < (self.steps.maxlen or 0):
            return None
        if self.is_new or self._typical is None:
            self.is_new = False
            backward = [seen.phases_ns.get(Phase.BACKWARD, 0) / 1e9 for seen in self.steps]
            whole = [seen.duration_ns / 1e9 for seen in self.steps]
            own = [a - b for a, b in zip(whole, backward, strict=True)]
            self._typical = _Typical(_median(whole), _median(own), _median(backward))
        return self._typical

    def phase_s(self, phase: str) -> float:
        return _median([seen.phases_ns.get(phase, 0) / 1e9 for seen in self.steps])


class _Behind(NamedTuple):
    """more_s: what it does by itself takes so much longer than the others' does. waited_s: by so
    much the others wait longer than it does, or its steps are longer than theirs."""

    more_s: float
    waited_s: float
    step_s: float

    @property
    def share(self) -> float:
        return min(self.more_s, self.waited_s) / self.step_s if self.step_s else 0.0


class RankBehindRule(Rule):
    """Severity: from the share of the step that others wait, by the kind's thresholds, and how long
    that lasts. Confidence: from how well what it takes more agrees with what others wait."""

    def __init__(self, settings: RankBehind) -> None:
        self._settings = settings
        self._ranks: defaultdict[int, _Rank] = defaultdict(lambda: _Rank(settings))

    def step(self, seen: StepSeen) -> None:
        if seen.is_special:
            return
        rank = self._ranks[seen.rank]
        rank.steps.append(seen)
        rank.is_new = True

    def conditions(self, now_ns: int) -> Iterator[Condition]:
        if len(self._ranks) < 2:
            return
        typical = {n: one for n, rank in self._ranks.items() if (one := rank.typical) is not None}
        for number, own in typical.items():
            others = [one for n, one in typical.items() if n != number]
            rank = self._ranks[number]
            behind = _behind(own, others)
            if behind is not None and rank.gate.update(now_ns, behind.share):
                yield self._condition(number, behind, rank.gate.began_ns or now_ns, now_ns)

    def _condition(self, number: int, behind: _Behind, began_ns: int, now_ns: int) -> Condition:
        rank = self._ranks[number]
        phase, more_s = self._grown(number)
        share = behind.share
        agree = min(behind.more_s, behind.waited_s) / max(behind.more_s, behind.waited_s)
        evidence = [f"What it does by itself takes {duration(behind.more_s)} a step longer."]
        if phase:
            evidence.append(f"{phase}: {duration(more_s)} a step more than on the others")
        return Condition(
            rule="rank_behind",
            key=f"rank {number}",
            kind="straggler",
            title=f"The others wait for rank {number}, {percent(share)} of each step",
            severity=severity("straggler", share, (now_ns - began_ns) / 1e9),
            confidence=max(0.5, agree),
            began_ns=began_ns,
            share=min(1.0, share),
            evidence=tuple(evidence),
            measures={"more_s": behind.more_s, "waited_s": behind.waited_s},
            rank=number,
            step=rank.steps[-1].number,
            metric="step_seconds",
            value=behind.step_s,
            limit=self._settings.over,
            group="speed",
            asks=f"phase:{phase}" if phase else "",
        )

    def _grown(self, number: int) -> tuple[str, float]:
        """The phase that takes so much more on this rank than on the others, most of all."""
        more = {
            phase.value: self._ranks[number].phase_s(phase)
            - _median([rank.phase_s(phase) for n, rank in self._ranks.items() if n != number])
            for phase in _PHASES
            if phase is not Phase.BACKWARD
        }
        most = max(more, key=lambda phase: more[phase])
        return (most, more[most]) if more[most] > 0.0 else ("", 0.0)


def _behind(own: _Typical, others: list[_Typical]) -> _Behind | None:
    """None: nobody to compare with, or no further from the others than they are from each other."""
    if not others:
        return None
    usual_s = _median([one.own_s for one in others])
    more_s = own.own_s - usual_s
    if len(others) >= 3:
        spread_s = _NORMAL * _median([abs(one.own_s - usual_s) for one in others])
        if more_s < _SURE * spread_s:
            more_s = 0.0
    step_s = _median([one.step_s for one in others])
    waited_s = _median([one.backward_s for one in others]) - own.backward_s
    return _Behind(max(0.0, more_s), max(0.0, waited_s, own.step_s - step_s), step_s)


def _median(values: list[float]) -> float:
    return median(values) or 0.0
