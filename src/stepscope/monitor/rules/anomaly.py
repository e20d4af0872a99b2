"""Single steps that took far longer than those around them."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator
from typing import Final

from stepscope.model.watching import Condition, StepSeen
from stepscope.monitor.judge import severity
from stepscope.monitor.rule import Rule
from stepscope.monitor.rule_settings import Anomaly
from stepscope.monitor.steps import longest_phase, own_s
from stepscope.monitor.words import duration, percent
from stepscope.stats.anomaly import AnomalyDetector
from stepscope.stats.quantiles import median

__all__ = ["AnomalyRule"]

_STEPS: Final = 100  # the last ones, whose time the odd ones' is compared with
_REFRESH: Final = 16  # steps between two looks at what is usual
_IN_A_ROW: Final = 3  # more odd steps after one another are a slow-down
_LONG_S: Final = 10.0  # a step like that, and
_LONG: Final = 8.0  # times the usual, is odd whatever comes after it


class _Rank:
    """odd: steps among the last ones. waiting: those that were odd, until an ordinary one shows
    that they were single."""

    def __init__(self, settings: Anomaly) -> None:
        self._settings = settings
        self._detector = AnomalyDetector()
        self._waiting: list[StepSeen] = []
        self._count = 0
        self.took_s: deque[float] = deque(maxlen=_STEPS)
        self.odd: list[StepSeen] = []
        self.shown_ns: int | None = None  # when the last of them was told first
        self.usual_s = 0.0

    def update(self, seen: StepSeen) -> None:
        took_s = own_s(seen)
        is_odd = self._detector.update(took_s) is not None
        self.took_s.append(took_s)
        self._count += 1
        if is_odd or self._count % _REFRESH == 0:
            self.usual_s = median(self.took_s) or 0.0
        if self.odd and self.odd[0].number <= seen.number - _STEPS:
            self.odd = self.odd[1:]
        if took_s < self._settings.times * self.usual_s:
            self._back()
        elif is_odd or self._waiting:
            self._away(seen, took_s)

    @property
    def lost_s(self) -> float:
        return sum(own_s(seen) - self.usual_s for seen in self.odd)

    @property
    def all_s(self) -> float:
        return sum(self.took_s)

    def _back(self) -> None:
        if len(self._waiting) <= _IN_A_ROW:
            self._add(one for one in self._waiting if one not in self.odd)
        self._waiting = []

    def _away(self, seen: StepSeen, took_s: float) -> None:
        self._waiting = [*self._waiting[-_IN_A_ROW:], seen]
        if len(self._waiting) > _IN_A_ROW:
            self.odd = [one for one in self.odd if one not in self._waiting]
        elif took_s >= max(_LONG_S, _LONG * self.usual_s):
            self._add([seen])

    def _add(self, steps: Iterable[StepSeen]) -> None:
        found = list(steps)
        if found:
            self.odd += found
            self.shown_ns = None


class AnomalyRule(Rule):
    """Severity: from the share of the last steps' time that odd ones took beyond the usual.
    Confidence: from how far the nearest of them is beyond what is asked for."""

    def __init__(self, settings: Anomaly) -> None:
        self._settings = settings
        self._ranks: defaultdict[int, _Rank] = defaultdict(lambda: _Rank(settings))

    def step(self, seen: StepSeen) -> None:
        if not seen.is_special:
            self._ranks[seen.rank].update(seen)

    def conditions(self, now_ns: int) -> Iterator[Condition]:
        settings = self._settings
        for number, rank in self._ranks.items():
            if not rank.odd:
                continue
            lost_s, all_s = rank.lost_s, rank.all_s
            if lost_s < max(settings.least_s, settings.over * all_s):
                continue
            # It is over when it is seen: told at one look, or for as long as it is to be held.
            if rank.shown_ns is None:
                rank.shown_ns = now_ns
            if now_ns - rank.shown_ns <= (settings.hold_s or 0.0) * 1e9:
                yield self._condition(number, rank, lost_s, all_s)

    def _condition(self, number: int, rank: _Rank, lost_s: float, all_s: float) -> Condition:
        worst = max(rank.odd, key=own_s)
        took_s, usual_s = own_s(worst), rank.usual_s
        phase = longest_phase(worst)
        many = f"{len(rank.odd)} steps" if len(rank.odd) > 1 else f"Step {worst.number}"
        share = min(1.0, lost_s / all_s)
        nearest_s = min(map(own_s, rank.odd))
        times = took_s / usual_s if usual_s else 0.0
        usually = (
            f"Step {worst.number} took {duration(took_s)}; one usually takes {duration(usual_s)}."
            f" {percent(share)} of the last {len(rank.took_s)} steps' time went there."
        )
        return Condition(
            rule="anomaly",
            key=f"rank {number}",
            kind="anomaly",
            title=f"{many} took far longer than usual, up to {duration(took_s)}",
            severity=severity("anomaly", share),
            confidence=max(0.5, 1.0 - self._settings.times * usual_s / nearest_s),
            began_ns=rank.odd[0].start_ns,
            share=share,
            evidence=(usually, *((f"Most of it: {phase}.",) if phase else ())),
            measures={"times_usual": times, "lost_s": lost_s, "odd_steps": float(len(rank.odd))},
            rank=number,
            step=rank.odd[0].number,
            metric="step_seconds",
            value=took_s,
            limit=self._settings.times * usual_s,
            group="stall",  # a stall that is over was an odd step
            asks=f"phase:{phase}" if phase else "",
        )
