"""Garbage collections that take much of the time, or take long."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from stepscope.model.phases import Phase
from stepscope.model.watching import Condition, Reading
from stepscope.monitor.gate import Gate
from stepscope.monitor.judge import severity
from stepscope.monitor.level import Level
from stepscope.monitor.rule import Rule
from stepscope.monitor.rule_settings import GarbageCollection
from stepscope.monitor.words import duration, percent

__all__ = ["GarbageRule"]

_WINDOW_S: Final = 30.0
_LEAST_S: Final = 10.0  # of many collections: shorter is a moment, not a state
_BACK: Final = 0.8  # of the limit


class _Rank:
    """pause: the longest of late, and when it was read."""

    def __init__(self, over: float) -> None:
        self.share = Level(_WINDOW_S, Gate(over, over * _BACK))
        self.pause: Reading | None = None


class GarbageRule(Rule):
    """Severity: from the share of the time in collections by the kind's thresholds, and how long
    that lasts; of one pause: its share of the half minute around it. Confidence: 1 where the share
    is twice the limit, or the pause; 0.5 at the limit."""

    def __init__(self, settings: GarbageCollection) -> None:
        self._settings = settings
        self._ranks: defaultdict[int, _Rank] = defaultdict(lambda: _Rank(settings.over))

    def reading(self, reading: Reading) -> None:
        if not reading.metric.startswith("gc_"):
            return
        rank = self._ranks[reading.rank]
        if reading.metric == "gc_ratio":
            rank.share.update(reading)
        elif reading.metric == "gc_pause_seconds":
            least_s = rank.pause.value if rank.pause is not None else self._settings.pause_s
            rank.pause = reading if reading.value >= least_s else rank.pause

    def conditions(self, now_ns: int) -> Iterator[Condition]:
        for number, rank in self._ranks.items():
            began_ns = rank.share.began_ns
            if began_ns is not None and now_ns - began_ns >= _LEAST_S * 1e9:
                yield self._often(number, rank.share.mean or 0.0, began_ns, now_ns)
            elif rank.pause is not None:
                yield self._long(rank.pause)
            # It is over when it is seen: told at one look, or for as long as it is to be held.
            hold_ns = (self._settings.hold_s or 0.0) * 1e9
            if rank.pause is not None and now_ns - rank.pause.time_ns > hold_ns:
                rank.pause = None

    def _often(self, number: int, share: float, began_ns: int, now_ns: int) -> Condition:
        return Condition(
            rule="gc",
            key=f"share {number}",
            kind="gc",
            title=f"{percent(share)} of the time goes to garbage collections",
            severity=severity("gc", share, (now_ns - began_ns) / 1e9),
            confidence=min(1.0, 0.5 * share / self._settings.over) if self._settings.over else 1.0,
            began_ns=began_ns,
            share=min(1.0, share),
            evidence=(f"{percent(share)} of the last {_WINDOW_S:.0f} s.",),
            rank=number,
            metric="gc_ratio",
            value=share,
            limit=self._settings.over,
            group="gc",
            asks=f"phase:{Phase.GC}",
        )

    def _long(self, pause: Reading) -> Condition:
        share = min(1.0, pause.value / _WINDOW_S)
        limit_s = self._settings.pause_s
        return Condition(
            rule="gc",
            key=f"pause {pause.rank}",
            kind="gc",
            title=f"A garbage collection took {duration(pause.value)}",
            severity=severity("gc", share),
            confidence=min(1.0, 0.5 * pause.value / limit_s) if limit_s else 1.0,
            began_ns=pause.time_ns,
            share=share,
            evidence=(f"The program stood still for {duration(pause.value)}.",),
            rank=pause.rank,
            step=pause.step,
            metric="gc_pause_seconds",
            value=pause.value,
            limit=limit_s,
            group="gc",
            asks=f"phase:{Phase.GC}",
        )
