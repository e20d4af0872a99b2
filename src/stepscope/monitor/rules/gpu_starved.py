"""A GPU that has little to do while training waits for its data."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from stepscope.model.watching import Condition, Reading
from stepscope.monitor.gate import Gate
from stepscope.monitor.judge import severity
from stepscope.monitor.level import Level
from stepscope.monitor.rule import Rule
from stepscope.monitor.rule_settings import GpuStarved
from stepscope.monitor.words import percent

__all__ = ["GpuStarvedRule"]

_WINDOW_S: Final = 30.0
_BACK: Final = 0.1  # of a limit, that has to be made good before it is over


class GpuStarvedRule(Rule):
    """Severity: from the share of the time that is waited, and how long that lasts. Confidence:
    from how much of the GPU's idle time the waiting can explain."""

    def __init__(self, settings: GpuStarved) -> None:
        self._settings = settings
        busy, waiting = settings.busy, settings.waiting
        self._busy: defaultdict[tuple[int, str], Level] = defaultdict(
            lambda: Level(_WINDOW_S, Gate(busy, busy * (1.0 + _BACK)))
        )
        self._waiting: defaultdict[int, Level] = defaultdict(
            lambda: Level(_WINDOW_S, Gate(waiting, waiting * (1.0 - _BACK)))
        )

    def reading(self, reading: Reading) -> None:
        if reading.metric == "gpu_busy_ratio":
            self._busy[reading.rank, reading.label].update(reading)
        elif reading.metric == "input_wait_ratio":
            self._waiting[reading.rank].update(reading)

    def conditions(self, now_ns: int) -> Iterator[Condition]:
        for (rank, label), busy in self._busy.items():
            waiting = self._waiting.get(rank)
            if waiting is None or busy.began_ns is None or waiting.began_ns is None:
                continue
            began_ns = max(busy.began_ns, waiting.began_ns)
            means = busy.mean or 0.0, waiting.mean or 0.0
            yield self._condition((rank, label), means, began_ns, now_ns)

    def _condition(
        self, whose: tuple[int, str], means: tuple[float, float], began_ns: int, now_ns: int
    ) -> Condition:
        rank, label = whose
        busy, waiting = means
        idle = max(0.0, 1.0 - busy)
        return Condition(
            rule="gpu_starved",
            key=f"rank {rank} GPU {label}",
            kind="gpu-starved",
            title=f"GPU {label} is busy {percent(busy)} of the time, for want of data",
            severity=severity("gpu-starved", waiting, (now_ns - began_ns) / 1e9),
            confidence=min(1.0, max(0.5, waiting / idle)) if idle else 0.5,
            began_ns=began_ns,
            share=min(1.0, waiting),
            evidence=(
                f"GPU {label} worked {percent(busy)} of the last {_WINDOW_S:.0f} s.",
                f"Training waited for its data {percent(waiting)} of them.",
            ),
            measures={"busy": busy, "waiting": waiting},
            rank=rank,
            metric="gpu_busy_ratio",
            value=busy,
            limit=self._settings.busy,
            group="speed",
            asks="kinds:input",
        )
