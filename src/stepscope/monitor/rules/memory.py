"""Memory that grows and grows, when it is going to be full, and when it nearly is."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

from stepscope.model.watching import Condition, Reading, StepSeen
from stepscope.monitor.growth import Growth, Pool
from stepscope.monitor.judge import graded, severity
from stepscope.monitor.rule import Rule
from stepscope.monitor.rule_settings import Memory
from stepscope.monitor.words import duration, percent, size

__all__ = ["MemoryRule"]

_WARM: Final = 3  # steps, before which memory grows because it is taken for the first time
_SOON: Final = ((math.log10(600.0), 0.95), (math.log10(3600.0), 0.8), (math.log10(43200.0), 0.5))


class MemoryRule(Rule):
    """Severity of what comes: 0.95 where the limit is ten minutes away, 0.8 an hour, 0.5 half a
    day, less where that is not sure; of creeping growth: as if it went on to the limit, with no
    confidence in that, or by the share of the limit that it took; of what is there: by its share.
    Confidence: from the width of the forecast; of what is there: from how little is left."""

    def __init__(self, settings: Memory) -> None:
        self._settings = settings
        self._pools: dict[tuple[int, str], Pool] = {}
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
                self._pools[rank, label] = fresh = Pool(self._pressure(label))
                fresh.limit_bytes, fresh.is_warm = pool.limit_bytes, True

    def reading(self, reading: Reading) -> None:
        hear = self._hears.get(reading.metric)
        if hear is None:
            return
        is_gpu = reading.metric.startswith("gpu_")
        key = reading.rank, f"GPU {reading.label}" if is_gpu else ""
        pool = self._pools.get(key)
        if pool is None:
            pool = self._pools[key] = Pool(self._pressure(key[1]))
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

    def _held(self, pool: Pool, reading: Reading) -> None:
        pool.outlook.update(reading.time_ns / 1e9, reading.value)
        pool.look(self._settings, reading.time_ns)

    def _limit(self, pool: Pool, reading: Reading) -> None:
        pool.limit_bytes = reading.value if reading.value > 0 else None

    def _ratio(self, pool: Pool, reading: Reading) -> None:
        pool.ratio = reading.value
        pool.gate.update(reading.time_ns, reading.value)
        held = pool.outlook.last
        if pool.limit_bytes is None and held and reading.value > 0.01:
            pool.limit_bytes = held / reading.value  # of a GPU nobody says it otherwise

    def _pressure(self, label: str) -> float:
        return self._settings.gpu_pressure if label else self._settings.pressure


def _growing(pool: Pool, growth: Growth, began_ns: int, whose: tuple[int, str]) -> Condition:
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
    if growth.is_ahead:
        how_bad = _how_soon(forecast.seconds, confidence)
    else:
        how_bad = _how_bad_creep(growth, pool.limit_bytes, share)
    return Condition(
        rule="memory",
        key=f"{'limit' if growth.is_ahead else 'creep'} {rank} {label}",
        kind="leak",
        title=f"Memory{of} grows steadily{when}",
        severity=how_bad,
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


def _how_bad_creep(growth: Growth, limit_bytes: float | None, share: float) -> float:
    """By the share of the limit that it took, and by when that is reached if it is a leak, which is
    not sure; without a limit by the share of what is held."""
    if not limit_bytes or not growth.forecast.rate:
        return severity("leak", share)
    left_s = max(0.0, limit_bytes - growth.held_bytes) / growth.forecast.rate
    taken = min(1.0, growth.grown_bytes / limit_bytes)
    return max(severity("leak", taken), _how_soon(left_s, confidence=0.0))


def _how_soon(seconds: float, confidence: float) -> float:
    return graded(math.log10(max(1.0, seconds)), _SOON) * (0.7 + 0.3 * confidence)


def _beyond(ratio: float, limit: float) -> float:
    """0 at the limit, 1 where all is taken."""
    return min(1.0, max(0.0, (ratio - limit) / (1.0 - limit))) if limit < 1.0 else 1.0


def _pressing(
    pool: Pool, began_ns: int, ratio: float, whose: tuple[int, str], now_ns: int
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
        # Half sure at the threshold, sure where nothing is left.
        confidence=0.5 + 0.5 * _beyond(ratio, pool.gate.enter),
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
