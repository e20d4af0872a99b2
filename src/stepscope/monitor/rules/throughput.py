"""Steps alone are as quick as ever, and yet there are fewer: what lies between takes more."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from stepscope.model.phases import Phase
from stepscope.model.watching import Condition, StepSeen
from stepscope.monitor.judge import severity
from stepscope.monitor.rule import Rule
from stepscope.monitor.rule_settings import Throughput
from stepscope.monitor.words import duration, percent
from stepscope.stats.quantiles import median

__all__ = ["ThroughputRule"]

_SPECIAL: Final = 10  # evaluations and saves in a stretch at least, so that stretches are alike
_LONGEST: Final = 50  # times the least steps: a stretch ends, however few of them came
_USUAL: Final = 4  # stretches before there is anything usual
_KEPT: Final = 64
_KINDS: Final = {Phase.EVALUATION: "validation", Phase.CHECKPOINT_SAVE: "checkpoint-save"}


@dataclass(slots=True)
class _Stretch:
    """Some steps in a row, evaluation and all. Not all of them need be told: numbers count all."""

    start_ns: int
    first: int  # its first step's number
    last: int = 0
    told: int = 0
    special: int = 0
    end_ns: int = 0
    ordinary_ns: int = 0  # in ordinary steps
    phases_ns: dict[str, int] = field(default_factory=dict)  # of the others

    def take(self, seen: StepSeen) -> None:
        self.told += 1
        self.last, self.end_ns = seen.number, seen.end_ns
        if not seen.is_special:
            self.ordinary_ns += seen.duration_ns
            return
        self.special += 1
        for phase, took_ns in seen.phases_ns.items():
            self.phases_ns[phase] = self.phases_ns.get(phase, 0) + took_ns

    @property
    def steps(self) -> int:
        return self.last - self.first + 1

    @property
    def step_s(self) -> float:
        """Of a step, with all that lay between."""
        return (self.end_ns - self.start_ns) / 1e9 / self.steps

    @property
    def ordinary_s(self) -> float:
        ordinary = self.told - self.special
        return self.ordinary_ns / 1e9 / ordinary if ordinary else 0.0

    def phase_s(self, phase: str) -> float:
        return self.phases_ns.get(phase, 0) / 1e9 / self.told


class _Rank:
    """usual: stretches that were as they should be. slow: those since it is slow, two at least."""

    def __init__(self) -> None:
        self.usual: deque[_Stretch] = deque(maxlen=_KEPT)
        self.slow: list[_Stretch] = []
        self.open: _Stretch | None = None

    @property
    def usual_s(self) -> float | None:
        return median(one.step_s for one in self.usual) if len(self.usual) >= _USUAL else None

    def usual_phase_s(self, phase: str) -> float:
        return median(one.phase_s(phase) for one in self.usual) or 0.0


class ThroughputRule(Rule):
    """Severity: from the share of the time that is lost against the usual, and how long that
    lasts. Confidence: from how far the slow stretches lie beyond all that were usual."""

    def __init__(self, settings: Throughput) -> None:
        self._settings = settings
        self._ranks: defaultdict[int, _Rank] = defaultdict(_Rank)

    def step(self, seen: StepSeen) -> None:
        rank = self._ranks[seen.rank]
        if rank.open is None or seen.number <= rank.open.last:  # or it was started again
            rank.open = _Stretch(seen.start_ns, seen.number)
        rank.open.take(seen)
        least = max(1, self._settings.steps)
        is_long = rank.open.steps >= least and rank.open.special >= _SPECIAL
        if is_long or rank.open.steps >= _LONGEST * least:
            self._close(rank, rank.open)

    def conditions(self, now_ns: int) -> Iterator[Condition]:
        for number, rank in self._ranks.items():
            usual_s = rank.usual_s
            if len(rank.slow) >= 2 and usual_s is not None:
                yield _condition(number, rank, usual_s, now_ns)

    def _close(self, rank: _Rank, stretch: _Stretch) -> None:
        rank.open = None
        if self._is_slow(rank, stretch):
            rank.slow = [*rank.slow[:1], *rank.slow[1:][-_KEPT:], stretch]
            return
        # One slow stretch alone was chance.
        rank.slow = []
        rank.usual.append(stretch)

    def _is_slow(self, rank: _Rank, stretch: _Stretch) -> bool:
        usual_s = rank.usual_s
        if usual_s is None:
            return False
        over = self._settings.over * (0.5 if len(rank.slow) >= 2 else 1.0)
        more_s = stretch.step_s - usual_s
        ordinary_s = median(one.ordinary_s for one in rank.usual) or 0.0
        by_steps_s = stretch.ordinary_s - ordinary_s
        # That steps alone are slower is what the slow-down rule tells.
        return more_s > over * usual_s and by_steps_s < 0.5 * more_s


def _condition(number: int, rank: _Rank, usual_s: float, now_ns: int) -> Condition:
    first, last = rank.slow[0], rank.slow[-1]
    ratio = last.step_s / usual_s
    lost = max(0.0, 1.0 - 1.0 / ratio)
    grown = max(last.phases_ns, key=lambda p: last.phase_s(p) - rank.usual_phase_s(p), default="")
    known = grown in _KINDS
    slowest_s = max(one.step_s for one in rank.usual)
    beyond = (last.step_s - slowest_s) / (last.step_s - usual_s)
    took = f"{duration(rank.usual_phase_s(grown))} → {duration(last.phase_s(grown))}"
    now = (
        f"With all that lies between, a step takes {duration(last.step_s)}, and took"
        f" {duration(usual_s)}."
    )
    return Condition(
        rule="throughput",
        key=f"rank {number}",
        kind=_KINDS[Phase(grown)] if known else "slowdown",
        title=f"{percent(lost)} fewer steps a second, though steps alone are as quick as ever",
        severity=severity("slowdown", lost, (now_ns - first.start_ns) / 1e9),
        confidence=min(1.0, max(0.5, 0.5 + 0.5 * beyond)),
        began_ns=first.start_ns,
        share=lost,
        evidence=(now, *((f"{grown}: {took} a step",) if grown else ())),
        measures={"ratio": ratio, "usual_step_s": usual_s, "step_s": last.step_s},
        rank=number,
        step=first.first,
        metric="steps_per_second",
        value=1.0 / last.step_s,
        limit=1.0 / usual_s,
        group="throughput",
        asks=f"phase:{grown}" if grown else "",
    )
