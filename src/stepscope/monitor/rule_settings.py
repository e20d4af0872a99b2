"""The settings of every rule, each default stated once, here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Any, Final

from stepscope.model.kinds import KINDS
from stepscope.monitor.quantities import (
    flag,
    number,
    part,
    quantity,
    seconds,
    share,
    text,
    times,
    whole,
)
from stepscope.monitor.table import setting

__all__ = [
    "RULES",
    "Anomaly",
    "Common",
    "Custom",
    "GarbageCollection",
    "GpuStarved",
    "Loader",
    "Loss",
    "Memory",
    "RankBehind",
    "Rules",
    "Slowdown",
    "Stall",
    "Threshold",
    "Throttling",
    "Throughput",
    "Watch",
]


@dataclass(frozen=True, slots=True)
class Watch:
    """How conditions become alerts.

    hold_s: what is a state has to be there for so long: shorter is a moment.
    resolve_s: gone for so long, it is over. cooldown_s: the same one that comes back within it is
    not told again, only counted. group_s: what begins within it and belongs together is one alert.
    captures: closer looks a run may cost at most.
    """

    hold_s: float = setting(10.0, seconds)
    resolve_s: float = setting(15.0, seconds)
    cooldown_s: float = setting(600.0, seconds)
    group_s: float = setting(60.0, seconds)
    captures: int = setting(3, whole)


@dataclass(frozen=True, slots=True)
class Common:
    """What every rule has. capture: its alerts open a closer look. hold_s: so long it has to be
    seen before it is told; None: as [watch] says."""

    enabled: bool = setting(True, flag)
    capture: bool = setting(False, flag)
    hold_s: float | None = setting(0.0, seconds)


@dataclass(frozen=True, slots=True)
class Stall(Common):
    """No step for `after` times the usual one and `least_s`. busy_s: that long in place of
    `least_s` where the program works as hard as ever: it may evaluate or save."""

    after: float = setting(10.0, times)
    least_s: float = setting(30.0, seconds)
    busy_s: float = setting(600.0, seconds)
    steps: int = setting(5, whole)  # seen before it speaks


@dataclass(frozen=True, slots=True)
class Slowdown(Common):
    """Ordinary steps take `over` longer than usual."""

    hold_s: float | None = setting(None, seconds)
    over: float = setting(0.05, part)


@dataclass(frozen=True, slots=True)
class Throughput(Common):
    """Steps alone are as quick as ever, and yet each takes `over` more with what lies between."""

    over: float = setting(0.10, part)
    steps: int = setting(200, whole)  # a stretch has at least so many


@dataclass(frozen=True, slots=True)
class Anomaly(Common):
    """Single steps of `times` the usual that took `over` of the last steps' time, and `least_s`."""

    times: float = setting(3.0, times)
    over: float = setting(0.05, part)
    least_s: float = setting(1.0, seconds)


@dataclass(frozen=True, slots=True)
class Memory(Common):
    """At its limit within `horizon_s` if it goes on; or `creep` of what is held came steadily, over
    `least_s`; or `pressure` of the limit is taken already. Caching allocators fill a GPU on
    purpose: there it is `gpu_pressure`."""

    horizon_s: float = setting(12 * 3600.0, seconds)
    creep: float = setting(0.2, part)
    least_s: float = setting(120.0, seconds)
    pressure: float = setting(KINDS["memory-pressure"].moderate_share, part)
    gpu_pressure: float = setting(KINDS["memory-pressure"].high_share, part)


@dataclass(frozen=True, slots=True)
class GpuStarved(Common):
    """The GPU works less than `busy` of the time while training waits `waiting` of it for data."""

    hold_s: float | None = setting(None, seconds)
    busy: float = setting(0.5, part)
    waiting: float = setting(KINDS["gpu-starved"].high_share, part)


@dataclass(frozen=True, slots=True)
class Throttling(Common):
    """A busy GPU's clock is `over` below its usual, or it is hotter than `celsius`."""

    hold_s: float | None = setting(None, seconds)
    over: float = setting(0.10, part)
    celsius: float = setting(90.0, number)


@dataclass(frozen=True, slots=True)
class Loader(Common):
    """Training waits `over` more of the time for its data than it did."""

    hold_s: float | None = setting(None, seconds)
    over: float = setting(0.10, part)


@dataclass(frozen=True, slots=True)
class GarbageCollection(Common):
    """`over` of the time in collections, or one that takes `pause_s`."""

    over: float = setting(0.05, part)
    pause_s: float = setting(1.0, seconds)


@dataclass(frozen=True, slots=True)
class RankBehind(Common):
    """A rank needs `over` of the step longer than the others for what it does by itself."""

    hold_s: float | None = setting(None, seconds)
    over: float = setting(0.10, part)
    steps: int = setting(20, whole)  # the last ones, compared


@dataclass(frozen=True, slots=True)
class Loss(Common):
    """Not finite, or far above where it was."""


@dataclass(frozen=True, slots=True)
class Threshold:
    """A limit that the user set. metric: any of the table, or one of the program's own; label: one
    of its series ("0" of the GPUs), "": each. severity: None: from how far and how long."""

    metric: str = setting("", text)
    above: float | None = setting(None, quantity)
    below: float | None = setting(None, quantity)
    for_s: float = setting(0.0, seconds, key="for")
    severity: float | None = setting(None, share)
    name: str = setting("", text)
    label: str = setting("", text)
    enabled: bool = setting(True, flag)
    capture: bool = setting(False, flag)

    def __post_init__(self) -> None:
        if not self.metric:
            raise ValueError('say what it is about, such as metric = "memory_ratio".')
        if (self.above is None) == (self.below is None):
            raise ValueError("give one of above and below.")

    @property
    def title(self) -> str:
        return self.name or self.metric


@dataclass(frozen=True, slots=True)
class Custom(Common):
    """A rule that was registered (monitor/registry.py): its name, and what it is made with."""

    name: str = ""
    options: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, slots=True)
class Rules:
    stall: Stall = Stall()
    slowdown: Slowdown = Slowdown()
    throughput: Throughput = Throughput()
    anomaly: Anomaly = Anomaly()
    memory: Memory = Memory()
    gpu_starved: GpuStarved = GpuStarved()
    throttling: Throttling = Throttling()
    loader: Loader = Loader()
    gc: GarbageCollection = GarbageCollection()
    rank_behind: RankBehind = RankBehind()
    loss: Loss = Loss()


RULES: Final = tuple(one.name for one in fields(Rules))
