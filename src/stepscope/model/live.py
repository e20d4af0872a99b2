"""A run as it is at a moment: what the live view shows, and live.json holds."""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from stepscope.model.alert import Alert
from stepscope.model.finding import Finding
from stepscope.model.plain import UnixTime

__all__ = [
    "LIVE_POINTS",
    "GpuNow",
    "History",
    "Left",
    "LiveView",
    "PhaseNow",
    "RankNow",
    "RunState",
    "ToldNow",
    "Unit",
    "Used",
]

LIVE_POINTS: Final = 120  # of a history, at most


class RunState(enum.StrEnum):
    STARTING = "starting"  # nothing is known of it yet
    RUNNING = "running"
    ENDING = "ending"  # the program has ended, its report is being made
    FINISHED = "finished"
    KILLED = "killed"  # nobody wrote its end
    NOT_RESPONDING = "not responding"  # whoever should tell of it says nothing


class Unit(enum.StrEnum):
    """What the values of a history are."""

    MILLISECONDS = "ms"
    PER_SECOND = "1/s"
    SHARE = "share"
    BYTES = "bytes"
    CPUS = "CPUs"
    PLAIN = ""


class Left(NamedTuple):
    """How long until something happens: most likely, and between which two."""

    seconds: float
    low_s: float
    high_s: float


class PhaseNow(NamedTuple):
    """0.6: six tenths of the loop's time. recent_share: of the last `LiveView.recent_s`."""

    phase: str
    share: float
    recent_share: float | None = None


@dataclass(frozen=True, slots=True)
class GpuNow:
    index: int
    busy_share: float | None = None
    memory_bytes: float | None = None
    memory_total_bytes: float | None = None
    temperature_celsius: float | None = None
    power_watts: float | None = None


@dataclass(frozen=True, slots=True)
class Used:
    """What the program and its workers use now; of a run that is over: what they used on average,
    and of memory the most. None: not measured."""

    cpus: float | None = None  # 1.5: one and a half CPUs are kept busy
    cpu_count: float | None = None
    host_cpu_share: float | None = None  # of all CPUs of the machine, whoever uses them
    memory_bytes: float | None = None
    memory_limit_bytes: float | None = None
    memory_full: Left | None = None  # until the limit is reached; None: it is not nearing it
    disk_read_bytes_per_s: float | None = None
    disk_write_bytes_per_s: float | None = None
    gpus: tuple[GpuNow, ...] = ()

    def with_forecast(self, memory_full: Left | None) -> Used:
        return replace(self, memory_full=memory_full)


class History(NamedTuple):
    """Something over the run so far, in equal pieces of time; None: not measured there."""

    name: str
    unit: Unit
    points: tuple[float | None, ...] = ()


class ToldNow(NamedTuple):
    """A value that the program itself tells (a loss). None: it is no number any more."""

    name: str
    value: float | None
    step: int | None = None
    points: tuple[float | None, ...] = ()


class RankNow(NamedTuple):
    """One rank. phase: where most of its time went lately."""

    rank: int
    steps: int
    step_ms: float | None = None
    phase: str = ""
    share: float = 0.0


@dataclass(frozen=True, slots=True)
class LiveView:
    """told_unix: when this was so. exit_code: -9: ended by signal 9; None: not known.

    step_ms: mean time of a training step lately, without evaluation and saves. since_step_s: since
    the last one ended. ends: end of the run, where it can be told. alerts: those that go on first,
    then the newest. verdict: what costs most so far, as the report will say it.
    """

    run: str
    state: RunState
    told_unix: UnixTime
    command: str = ""
    started_unix: UnixTime | None = None
    elapsed_s: float | None = None
    exit_code: int | None = None
    steps: int = 0
    steps_per_second: float | None = None
    step_ms: float | None = None
    since_step_s: float | None = None
    ends: Left | None = None
    recent_s: float | None = None
    phases: tuple[PhaseNow, ...] = ()
    used: Used = Used()
    history: tuple[History, ...] = ()
    alerts: tuple[Alert, ...] = ()
    verdict: Finding | None = None
    told: tuple[ToldNow, ...] = ()
    ranks: tuple[RankNow, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def is_over(self) -> bool:
        """Nothing will change any more."""
        return self.state in (RunState.FINISHED, RunState.KILLED)
