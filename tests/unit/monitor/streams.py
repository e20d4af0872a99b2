"""Synthetic runs with known faults: steps and readings on a fake clock, told to a monitor."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from stepscope.model.alert import Alert
from stepscope.model.watching import Condition, Explained, Reading, StepSeen
from stepscope.monitor.core import Identity, Monitor
from stepscope.monitor.settings import watch_settings

SECOND_NS = 1_000_000_000
UNIX = 1_800_000_000.0  # what the wall clock shows when the monotonic one shows 0
SHARES = {
    "input wait": 0.10,
    "forward": 0.30,
    "backward": 0.45,
    "optimizer": 0.10,
    "python between": 0.05,
}


GIB = 2.0**30
# What the sampler reads of a run that has nothing: by seconds since it began.
HEALTHY: Mapping[str, Callable[[float], float]] = {
    "memory_bytes": lambda t: (4 + 0.3 * (t % 60) / 60) * GIB,
    "memory_limit_bytes": lambda t: 16 * GIB,
    "memory_ratio": lambda t: (4 + 0.3 * (t % 60) / 60) / 16,
    "cpu_ratio": lambda t: 1.9 + 0.1 * math.sin(t),
    "input_wait_ratio": lambda t: 0.1 + 0.05 * math.sin(1.7 * t),
    "gc_ratio": lambda t: 0.01,
    "gc_pause_seconds": lambda t: 0.02,
    "gpu_busy_ratio 0": lambda t: 0.85 + 0.1 * math.sin(t),
    "gpu_clock_ratio 0": lambda t: 0.95 + 0.02 * math.sin(t),
    "gpu_temperature_celsius 0": lambda t: 70 + 5 * math.sin(t / 50),
    "gpu_memory_bytes 0": lambda t: 10 * GIB,
    "gpu_memory_ratio 0": lambda t: 0.6,
    "loss": lambda t: 2 / (1 + t / 50) + 0.05 * math.sin(3.3 * t),
}


def monitor_of(rules: Mapping[str, Any] | None = None, explain: Any = None) -> Monitor:
    numbers = count(1)
    return Monitor(
        watch_settings(rules or {}),
        Identity("run", "host"),
        explain or (lambda condition: Explained()),
        lambda: f"id{next(numbers)}",
    )


@dataclass
class Run:
    """A program that trains, on a clock of its own.

    step_s: of an ordinary step, with `noise` (a standard deviation, as a share). extra_s: what a
    step takes more, by phase; by the number of the step. gauges: readings, by time in seconds.
    ticks: how often the monitor is asked, and gauges are read.
    """

    monitor: Monitor
    step_s: float = 0.1
    noise: float = 0.02
    warm_up: int = 5
    evaluation_every: int = 0
    evaluation_s: float = 8.0
    save_every: int = 0
    save_s: float = 2.0
    tick_s: float = 1.0
    ranks: int = 1
    seed: int = 0
    extra_s: Callable[[int, int], Mapping[str, float]] = lambda number, rank: {}
    gauges: Mapping[str, Callable[[float], float]] = field(default_factory=dict)
    now_s: float = 1000.0
    number: int = 0
    told: list[Alert] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.began_s = self.next_tick_s = self.now_s

    def train(self, steps: int) -> Run:
        for _ in range(steps):
            self.number += 1
            start_s, special_s = self.now_s, self._special_s()
            parts = [self._parts(rank, special_s) for rank in range(self.ranks)]
            self.wait(max(sum(one.values()) for one in parts))
            for rank, phases_s in enumerate(parts):
                phases_ns = {name: int(took * SECOND_NS) for name, took in phases_s.items()}
                # Ranks wait for each other in the backward pass.
                start_ns, end_ns = int(start_s * SECOND_NS), int(self.now_s * SECOND_NS)
                phases_ns["backward"] += end_ns - start_ns - sum(phases_ns.values())
                is_special = bool(special_s)
                self.monitor.step(
                    StepSeen(rank, self.number, start_ns, end_ns, phases_ns, is_special)
                )
        return self

    def wait(self, seconds: float) -> Run:
        """Time passes; the monitor looks as often as it does."""
        end_s = self.now_s + seconds
        while self.next_tick_s <= end_s:
            self.now_s = self.next_tick_s
            self._tick()
            self.next_tick_s += self.tick_s
        self.now_s = end_s
        return self

    def end(self) -> Run:
        self.told += self.monitor.ended(int(self.now_s * SECOND_NS), UNIX + self.now_s)
        return self

    @property
    def firing(self) -> list[Alert]:
        """What was raised, in its order."""
        return [alert for alert in self.told if alert.is_firing]

    @property
    def resolved(self) -> list[Alert]:
        return [alert for alert in self.told if not alert.is_firing]

    def names(self) -> list[tuple[str, str]]:
        return [(alert.rule, alert.finding.kind) for alert in self.firing]

    def _tick(self) -> None:
        now_ns = int(self.now_s * SECOND_NS)
        for name, value in self.gauges.items():
            metric, _, label = name.partition(" ")
            rank = 0
            if "@" in metric:
                metric, _, of = metric.partition("@")
                rank = int(of)
            said = value(self.now_s - self.began_s)
            self.monitor.reading(Reading(now_ns, metric, said, label, rank, self.number))
        self.told += self.monitor.tick(now_ns, UNIX + self.now_s)

    def _special_s(self) -> dict[str, float]:
        found = {}
        if self.evaluation_every and self.number % self.evaluation_every == 0:
            found["evaluation"] = self.evaluation_s
        if self.save_every and self.number % self.save_every == 0:
            found["checkpoint save"] = self.save_s
        return found

    def _parts(self, rank: int, special_s: Mapping[str, float]) -> dict[str, float]:
        took_s = self.step_s * max(0.2, self.random.gauss(1.0, self.noise))
        if self.number <= self.warm_up:
            took_s *= 10.0 / self.number
        parts = {phase: share * took_s for phase, share in SHARES.items()}
        for phase, more in (*special_s.items(), *self.extra_s(self.number, rank).items()):
            parts[phase] = parts.get(phase, 0.0) + more
        return parts


def condition(rule: str = "stall", key: str = "rank 0", **changes: Any) -> Condition:
    given: dict[str, Any] = {
        "kind": "stall",
        "title": "No step",
        "severity": 0.8,
        "confidence": 0.9,
        "began_ns": 0,
        **changes,
    }
    return Condition(rule, key, **given)
