"""Training waits more for its data than it did."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from stepscope.model.watching import Condition, Reading
from stepscope.monitor.gate import Gate
from stepscope.monitor.judge import severity
from stepscope.monitor.recent import Usual
from stepscope.monitor.rule import Rule
from stepscope.monitor.rule_settings import Loader
from stepscope.monitor.words import percent

__all__ = ["LoaderRule"]

_WINDOW_S: Final = 30.0
_FEWEST: Final = 3  # readings
_BACK: Final = 0.5  # of the growth, that has to be made good before it is over


class _Rank:
    def __init__(self, over: float) -> None:
        self.wait = Usual(_WINDOW_S)
        self.gate = Gate(over, over * _BACK)
        self.step: int | None = None

    @property
    def more(self) -> float | None:
        """How much more of the time it waits than usual; None: not known yet."""
        now, usual = self.wait.recent.mean, self.wait.value
        return now - usual if now is not None and usual is not None else None


class LoaderRule(Rule):
    """Severity: from the share of the time that is waited more than usual, and how long that lasts.
    Confidence: from how much of the waiting is more than usual."""

    def __init__(self, settings: Loader) -> None:
        self._settings = settings
        self._ranks: defaultdict[int, _Rank] = defaultdict(lambda: _Rank(settings.over))

    def reading(self, reading: Reading) -> None:
        if reading.metric != "input_wait_ratio":
            return
        rank = self._ranks[reading.rank]
        rank.wait.update(reading.time_ns, reading.value, frozen=rank.gate.is_open)
        was_open = rank.gate.is_open
        if rank.more is not None and rank.wait.recent.count >= _FEWEST:
            rank.gate.update(reading.time_ns, rank.more)
        if not was_open:
            rank.step = reading.step

    def conditions(self, now_ns: int) -> Iterator[Condition]:
        for number, rank in self._ranks.items():
            more, began_ns = rank.more, rank.gate.began_ns
            if began_ns is not None and more is not None:
                yield self._condition(number, rank, more, began_ns, now_ns)

    def _condition(
        self, number: int, rank: _Rank, more: float, began_ns: int, now_ns: int
    ) -> Condition:
        now, usual = rank.wait.recent.mean or 0.0, rank.wait.value or 0.0
        return Condition(
            rule="loader",
            key=f"rank {number}",
            kind="slowdown",
            title=f"Waits for data {percent(now)} of the time, usually {percent(usual)}",
            severity=severity("slowdown", more, (now_ns - began_ns) / 1e9),
            confidence=min(1.0, max(0.5, more / now)) if now else 0.5,
            began_ns=began_ns,
            share=min(1.0, max(0.0, more)),
            evidence=(
                f"Training waited {percent(now)} of the last {_WINDOW_S:.0f} s for its data.",
            ),
            measures={"waiting": now, "usual_waiting": usual},
            rank=number,
            step=rank.step,
            metric="input_wait_ratio",
            value=now,
            limit=usual + self._settings.over,
            group="speed",
            asks="kinds:input",
        )
