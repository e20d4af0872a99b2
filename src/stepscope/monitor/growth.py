"""How the memory of a rank or a GPU grows, looked at as seldom as does."""

from __future__ import annotations

import math
from typing import Final, NamedTuple

from stepscope.monitor.gate import Gate
from stepscope.monitor.rule_settings import Memory
from stepscope.monitor.trends import Outlook
from stepscope.stats.forecast import Forecast

__all__ = ["Growth", "Pool"]

_FIRST_LOOK_S: Final = 2.0  # between two looks at growth, which cost some ms: longer and longer
_LOOKS: Final = 0.05  # of the time watched
_LAST_LOOK_S: Final = 120.0
_HIGHER: Final = 1.003  # than at the last look
_BACK: Final = 0.02  # of the limit, that has to be given back before the pressure is over
_LOADING_S: Final = 600.0  # that a program may fill memory before its first steps
_CREEP_AHEAD: Final = 1.01  # of what is held: a limit that steady growth reaches soon


class Growth(NamedTuple):
    """What a look found. limit_bytes: what it is heading for; None where it only creeps."""

    forecast: Forecast
    held_bytes: float
    limit_bytes: float | None
    looked_s: float

    @property
    def grown_bytes(self) -> float:
        return self.forecast.rate * self.lasted_s

    @property
    def is_ahead(self) -> bool:
        return self.limit_bytes is not None

    @property
    def lasted_s(self) -> float:
        return self.looked_s - self.forecast.since_s


class Pool:
    """The memory of a rank, or of a GPU. …_since_ns: when that was seen first. is_warm: steps are
    made."""

    def __init__(self, pressure: float) -> None:
        self.outlook = Outlook()
        self.gate = Gate(pressure, pressure - _BACK)
        self.limit_bytes: float | None = None
        self.ratio: float | None = None
        self.ahead: Growth | None = None  # reaches the limit
        self.creep: Growth | None = None
        self.ahead_since_ns = self.creep_since_ns = 0
        self.is_warm = False
        self.step: int | None = None
        self._looked_s = -math.inf
        self._looked_peak = 0.0

    def look(self, settings: Memory, time_ns: int) -> None:
        """At the growth so far, if the last look is long enough ago."""
        time_s = time_ns / 1e9
        pause_s = min(_LAST_LOOK_S, max(_FIRST_LOOK_S, _LOOKS * self.outlook.watched_s))
        if time_s - self._looked_s < pause_s or not self._may_grow():
            return
        self._looked_s, self._looked_peak = time_s, self.outlook.peak
        was_ahead, was_creeping = self.ahead, self.creep
        self.ahead = self._limit_ahead(settings, time_s)
        # That it grows is no news where it is told that it will be full.
        told = was_creeping is not None or self.ahead is None
        self.creep = self._creep(settings, time_s) if told else None
        if was_ahead is None:
            self.ahead_since_ns = time_ns
        if was_creeping is None:
            self.creep_since_ns = time_ns

    def _may_grow(self) -> bool:
        """What is no higher than at the last look does not grow: nothing to look at."""
        is_growing = self.ahead is not None or self.creep is not None
        return is_growing or self.outlook.peak > _HIGHER * self._looked_peak

    def _limit_ahead(self, settings: Memory, time_s: float) -> Growth | None:
        if self.limit_bytes is None or self.outlook.last is None:
            return None
        found = self.outlook.get(self.limit_bytes)
        if found is None or found.seconds > settings.horizon_s:
            return None
        growth = Growth(found, self.outlook.last, self.limit_bytes, time_s)
        # The first tooth of a sawtooth looks the same: there is time to see more of it.
        is_pressing = found.seconds <= settings.least_s / 2
        return growth if is_pressing or self._is_long(growth, settings) else None

    def _creep(self, settings: Memory, time_s: float) -> Growth | None:
        held = self.outlook.last
        if not held or self.outlook.watched_s < settings.least_s:
            return None
        found = self.outlook.get(held * _CREEP_AHEAD)
        growth = Growth(found, held, None, time_s) if found is not None else None
        if growth is None or growth.grown_bytes < settings.creep * held:
            return None
        return growth if self._is_long(growth, settings) else None

    def _is_long(self, growth: Growth, settings: Memory) -> bool:
        """Of a program that makes no steps, it may be all that it has to load first."""
        least_s = settings.least_s if self.is_warm else max(settings.least_s, _LOADING_S)
        return growth.lasted_s >= least_s
