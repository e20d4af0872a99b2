"""Ordinary steps take longer than they did."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from stepscope.model.phases import Phase
from stepscope.model.watching import Condition, Reading, StepSeen
from stepscope.monitor.comparing import Grown, grown_phases, is_slower, plain_steps
from stepscope.monitor.judge import severity
from stepscope.monitor.recent import Usual
from stepscope.monitor.rule import Rule
from stepscope.monitor.rule_settings import Slowdown
from stepscope.monitor.steps import own_s
from stepscope.monitor.words import duration, percent
from stepscope.stats.quantiles import median
from stepscope.stats.slowdown import SlowdownDetector

__all__ = ["SlowdownRule"]

_KEPT: Final = 128  # steps, whose phases are compared
_FEWEST: Final = 8  # before the change, to compare with
_AGAIN: Final = 8  # steps between two looks at what is not confirmed yet
_CONFIRMED: Final = 0.8  # of the least slow-down, by which all steps since are slower
_STILL: Final = 0.5  # of the least slow-down, that the last steps have to show
_LEVEL: Final = 15  # steps that tell what a step takes now
_HOST_WINDOW_S: Final = 10.0
_FULL: Final = 0.9  # of the machine's CPUs
_FULLER: Final = 0.1  # than usual
_WAITING: Final = 0.9  # of the severity, where a rank waits for another


class _Rank:
    """began: the first slow step, while it is slow. grown: phases that took more, most first.
    is_confirmed: all steps since are slower than those before, by their means."""

    def __init__(self, least: float) -> None:
        self.detector = SlowdownDetector(least)
        self.began: StepSeen | None = None
        self.grown: list[Grown] = []
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
        self._before = plain_steps(steps[: place if place >= _FEWEST else len(steps) // 4])
        self._compare()

    def _compare(self) -> None:
        after = plain_steps(list(self._steps)[-self._since :])
        self.grown = grown_phases(self._before, after)
        self.is_confirmed = is_slower(self._before, after, _CONFIRMED * self._least)


class SlowdownRule(Rule):
    """Severity: from the share of the time that is lost against the usual, by the kind's
    thresholds, and how long that lasts. Confidence: the detector's, of noise not explaining it."""

    def __init__(self, settings: Slowdown) -> None:
        self._settings = settings
        self._ranks: dict[int, _Rank] = {}
        self._host = Usual(_HOST_WINDOW_S)  # share of its CPUs that are busy

    def step(self, seen: StepSeen) -> None:
        if seen.is_special:
            return
        rank = self._ranks.get(seen.rank)
        if rank is None:
            rank = self._ranks[seen.rank] = _Rank(self._settings.over)
        rank.update(seen)

    def reading(self, reading: Reading) -> None:
        if reading.metric == "host_cpu_ratio":
            is_slow = any(rank.detector.is_slow for rank in self._ranks.values())
            self._host.update(reading.time_ns, reading.value, frozen=is_slow)

    def conditions(self, now_ns: int) -> Iterator[Condition]:
        slow = [rank for rank in self._ranks.values() if rank.is_confirmed]
        has_cause = any(not _only_waits(rank) for rank in slow)
        also = self._of_the_host() if slow else ()
        for rank in slow:
            usual_s = rank.detector.usual
            if rank.began is not None and usual_s and self._is_still_slow(rank, usual_s):
                waits = has_cause and _only_waits(rank)
                found = _condition(rank, rank.began, usual_s, now_ns, waits=waits)
                yield replace(found, evidence=(*found.evidence, *also))

    def _is_still_slow(self, rank: _Rank, usual_s: float) -> bool:
        """The detector wants to be sure that it is over; until then the last steps may be as quick
        as ever, and nobody is to be told that they are slow."""
        return rank.level_s >= usual_s * (1.0 + _STILL * self._settings.over)

    def _of_the_host(self) -> tuple[str, ...]:
        """That its CPUs have no room any more, where they had: the most common reason of all."""
        now, usual = self._host.recent.mean, self._host.value
        if now is None or now < _FULL or (usual is not None and now - usual < _FULLER):
            return ()
        before = f", and were {percent(usual)}" if usual is not None else ""
        return (f"The machine's CPUs are {percent(now)} busy{before}: what else runs on it?",)


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
        evidence=(before, *map(str, rank.grown)),
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


def _asks(grown: Sequence[Grown]) -> str:
    return f"phase:{grown[0].phase}" if grown else ""
