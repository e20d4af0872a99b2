"""Memory that grows and grows, when it is going to be full, and when it nearly is."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final, NamedTuple

from stepscope.model.watching import Condition, Reading, StepSeen
from stepscope.monitor.gate import Gate
from stepscope.monitor.judge import graded, severity
from stepscope.monitor.rule import Rule
from stepscope.monitor.rule_settings import Memory
from stepscope.monitor.trends import Outlook
from stepscope.monitor.words import duration, percent, size
from stepscope.stats.forecast import Forecast

__all__ = ["MemoryRule"]

_WARM: Final = 3  # steps, before which memory grows because it is taken for the first time
_FIRST_LOOK_S: Final = 2.0  # between two looks at growth, which cost some ms: longer and longer
_LOOKS: Final = 0.05  # of the time watched
_LAST_LOOK_S: Final = 120.0
_HIGHER: Final = 1.003  # than at the last look
_BACK: Final = 0.02  # of the limit, that has to be given back before the pressure is over
_CREEP_AHEAD: Final = 1.01  # of what is held: a limit that steady growth reaches soon
_SOON: Final = ((math.log10(600.0), 0.95), (math.log10(3600.0), 0.8), (math.log10(43200.0), 0.5))


class _Growth(NamedTuple):
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


class _Pool:
    """The memory of a rank (label ""), or of a GPU. …_since_ns: when that was
    seen first."""

    def __init__(self, pressure: float) -> None:
        self.outlook = Outlook()
        self.gate = Gate(pressure, pressure - _BACK)
        self.limit_bytes: float | None = None
        self.ratio: float | None = None
        self.ahead: _Growth | None = None  # reaches the limit
        self.creep: _Growth | None = None
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

    def _limit_ahead(self, settings: Memory, time_s: float) -> _Growth | None:
        if self.limit_bytes is None or self.outlook.last is None:
            return None
        found = self.outlook.get(self.limit_bytes)
        if found is None or found.seconds > settings.horizon_s:
            return None
        growth = _Growth(found, self.outlook.last, self.limit_bytes, time_s)
        # The first tooth of a sawtooth looks the same: there is time to see more of it.
        is_pressing = found.seconds <= settings.least_s / 2
        return growth if is_pressing or growth.lasted_s >= settings.least_s else None

    def _creep(self, settings: Memory, time_s: float) -> _Growth | None:
        held = self.outlook.last
        if not held or self.outlook.watched_s < settings.least_s:
            return None
        found = self.outlook.get(held * _CREEP_AHEAD)
        growth = _Growth(found, held, None, time_s) if found is not None else None
        if growth is None or growth.lasted_s < settings.least_s:
            return None
        return growth if growth.grown_bytes >= settings.creep * held else None


class MemoryRule(Rule):
    """Severity of what comes: 0.95 where the limit is ten minutes away, 0.8 an hour, 0.5 half a
    day, less where that is not sure; of creeping growth: by the share of what is held that came;
    of what is there: by the share of the limit. Confidence: from the width of the forecast."""

    def __init__(self, settings: Memory) -> None:
        self._settings = settings
        self._pools: dict[tuple[int, str], _Pool] = {}
        self._hears = {
            "memory_bytes": self._held,
            "gpu_memory_bytes": self._held,
            "memory_limit_bytes": self._limit,
            "memory_ratio": self._ratio,
            "gpu_memory_ratio": self._ratio,
        }

    def step(self, seen: StepSeen) -> None:
        """What was before the first steps does not tell how memory grows in them."""
        if seen.number < _WARM:
            return
        for (rank, label), pool in self._pools.items():
            if rank == seen.rank and not pool.is_warm:
                self._pools[rank, label] = fresh = _Pool(self._pressure(label))
                fresh.limit_bytes, fresh.is_warm = pool.limit_bytes, True

    def reading(self, reading: Reading) -> None:
        hear = self._hears.get(reading.metric)
        if hear is None:
            return
        is_gpu = reading.metric.startswith("gpu_")
        key = reading.rank, f"GPU {reading.label}" if is_gpu else ""
        pool = self._pools.get(key)
        if pool is None:
            pool = self._pools[key] = _Pool(self._pressure(key[1]))
        pool.step = reading.step
        hear(pool, reading)

    def conditions(self, now_ns: int) -> Iterator[Condition]:
        for (rank, label), pool in self._pools.items():
            if pool.ahead is not None:
                yield _growing(pool, pool.ahead, pool.ahead_since_ns, (rank, label))
            if pool.creep is not None:
                yield _growing(pool, pool.creep, pool.creep_since_ns, (rank, label))
            if pool.gate.began_ns is not None and pool.ratio is not None:
                yield _pressing(pool, pool.gate.began_ns, pool.ratio, (rank, label), now_ns)

    def _held(self, pool: _Pool, reading: Reading) -> None:
        pool.outlook.update(reading.time_ns / 1e9, reading.value)
        pool.look(self._settings, reading.time_ns)

    def _limit(self, pool: _Pool, reading: Reading) -> None:
        pool.limit_bytes = reading.value if reading.value > 0 else None

    def _ratio(self, pool: _Pool, reading: Reading) -> None:
        pool.ratio = reading.value
        pool.gate.update(reading.time_ns, reading.value)
        held = pool.outlook.last
        if pool.limit_bytes is None and held and reading.value > 0.01:
            pool.limit_bytes = held / reading.value  # of a GPU nobody says it otherwise

    def _pressure(self, label: str) -> float:
        return self._settings.gpu_pressure if label else self._settings.pressure


def _growing(pool: _Pool, growth: _Growth, began_ns: int, whose: tuple[int, str]) -> Condition:
    rank, label = whose
    forecast = growth.forecast
    share = min(1.0, growth.grown_bytes / growth.held_bytes) if growth.held_bytes else 0.0
    confidence = 0.5 + 0.5 * forecast.low_s / forecast.high_s if forecast.high_s else 0.5
    of = f" of {label}" if label else ""
    came = f"{size(growth.grown_bytes)} of it came in {duration(growth.lasted_s)}"
    hourly = size(forecast.rate * 3600.0)
    evidence = [f"{size(growth.held_bytes)} are held; {came}, {hourly} an hour."]
    if growth.limit_bytes is not None:
        span = f"{duration(forecast.low_s)} to {duration(forecast.high_s)}"
        evidence.append(f"The limit of {size(growth.limit_bytes)} is reached in {span} at that.")
    when = f", and is full in {duration(forecast.seconds)}" if growth.is_ahead else ""
    how_soon = graded(math.log10(max(1.0, forecast.seconds)), _SOON) * (0.7 + 0.3 * confidence)
    return Condition(
        rule="memory",
        key=f"{'limit' if growth.is_ahead else 'creep'} {rank} {label}",
        kind="leak",
        title=f"Memory{of} grows steadily{when}",
        severity=how_soon if growth.is_ahead else severity("leak", share),
        confidence=confidence,
        began_ns=began_ns,
        share=share,
        evidence=tuple(evidence),
        measures={
            "grown_bytes": growth.grown_bytes,
            "bytes_per_s": forecast.rate,
            **({"seconds_left": forecast.seconds} if growth.is_ahead else {}),
        },
        rank=rank,
        step=pool.step,
        metric="gpu_memory_bytes" if label else "memory_bytes",
        value=growth.held_bytes,
        limit=growth.limit_bytes,
        group="memory growth",
        asks="memory",
    )


def _pressing(
    pool: _Pool, began_ns: int, ratio: float, whose: tuple[int, str], now_ns: int
) -> Condition:
    rank, label = whose
    lasted_s = (now_ns - began_ns) / 1e9
    of = f" of {label}" if label else ""
    limit = f" of {size(pool.limit_bytes)}" if pool.limit_bytes else ""
    return Condition(
        rule="memory",
        key=f"pressure {rank} {label}",
        kind="memory-pressure",
        title=f"Memory{of} is nearly full: {percent(ratio)}{limit}",
        severity=severity("memory-pressure", min(1.0, ratio), lasted_s),
        confidence=1.0,
        began_ns=began_ns,
        share=min(1.0, ratio),
        evidence=(f"{percent(ratio)} of what may be held is taken.",),
        measures={"ratio_of_limit": ratio},
        rank=rank,
        step=pool.step,
        metric="gpu_memory_ratio" if label else "memory_ratio",
        value=ratio,
        limit=pool.gate.enter,
        group="memory pressure",
        asks="kinds:memory",
    )
