"""The settings of a run, each default stated once, and the variables that carry them to the child.

The training process imports this module: keep it free of heavy imports (dataclasses among them).
"""

from __future__ import annotations

import enum
from typing import Final, NamedTuple

__all__ = [
    "ALERT_THRESHOLD",
    "BATCH_SIZES",
    "BOTTLENECK_THRESHOLD",
    "CACHE_SIZE",
    "CPU_THRESHOLD_PERCENT",
    "DEFAULTS",
    "ENV_APPLY",
    "ENV_LEVEL",
    "ENV_MEMORY",
    "ENV_PACKAGE",
    "ENV_PLAN",
    "ENV_REPLAY",
    "ENV_RUN",
    "ENV_STATUS",
    "ENV_TRIAL",
    "ENV_WATCH",
    "GPU_THRESHOLD_PERCENT",
    "LINES_INTERVAL_S",
    "MAX_SAMPLES",
    "MEMORY_INTERVAL_S",
    "MEMORY_THRESHOLD_PERCENT",
    "MONITORING_INTERVAL_S",
    "PLAN_FAILED",
    "PLAN_PROGRESS",
    "REPORTS_FOLDER",
    "RUNS_FOLDER",
    "SAMPLING_INTERVAL_S",
    "WATCH_DEFAULT",
    "WORKER_COUNTS",
    "Depth",
    "Level",
    "MemoryDetail",
    "PlanWish",
    "Replay",
    "Settings",
    "TrialWish",
]

# How the launcher speaks to the processes below it.
ENV_RUN: Final = "STEPSCOPE_RUN"  # absolute path of the run folder; absent: do not record
ENV_STATUS: Final = "STEPSCOPE_STATUS"  # folder for status pages
ENV_PACKAGE: Final = "STEPSCOPE_PACKAGE"  # folder to import stepscope from
ENV_LEVEL: Final = "STEPSCOPE_LEVEL"  # how much to record
ENV_MEMORY: Final = (
    "STEPSCOPE_MEMORY"  # which memory to look at: names of MemoryDetail, with commas
)

ENV_APPLY: Final = "STEPSCOPE_APPLY"  # changes to make: a list of model.change.Change as JSON
ENV_TRIAL: Final = "STEPSCOPE_TRIAL"  # how far to run: a TrialWish as JSON
ENV_WATCH: Final = "STEPSCOPE_WATCH"  # "1": somebody watches the run while it goes on
ENV_REPLAY: Final = "STEPSCOPE_REPLAY"  # whether operators are run again: a Replay
ENV_PLAN: Final = "STEPSCOPE_PLAN"  # what to do about checkpoints: a PlanWish as JSON
PLAN_PROGRESS: Final = "plan.progress"  # in the status folder: how far planning is
PLAN_FAILED: Final = "plan-failed.txt"  # in the run folder: why there is no plan

RUNS_FOLDER: Final = "runs"
WATCH_DEFAULT: Final = "default"  # the rules as they come, without a file


class Level(enum.StrEnum):
    """How much is recorded. `production` costs least, `comprehensive` most."""

    PRODUCTION = "production"
    BASIC = "basic"
    DETAILED = "detailed"
    COMPREHENSIVE = "comprehensive"

    @property
    def depth(self) -> Depth:
        """Of the bottleneck profilers (document 004)."""
        return _DEPTH[self]


_SYSTEM_INTERVAL_S: Final = {
    Level.PRODUCTION: 5.0,
    Level.BASIC: 1.0,
    Level.DETAILED: 0.5,
    Level.COMPREHENSIVE: 0.2,
}


_STACK_INTERVAL_S: Final = {
    Level.PRODUCTION: 0.05,
    Level.BASIC: 0.01,
    Level.DETAILED: 0.005,
    Level.COMPREHENSIVE: 0.002,
}


class Depth(NamedTuple):
    """What BottleneckProfiler, DataLoadingProfiler and PreprocessingProfiler do at a level."""

    least_interval_s: float  # samples of the machine come no more often than this
    bottlenecks: bool  # name what stood in the way, and what to do about it
    hooks: bool  # see torch's loaders, modules and optimizers: the training loop is judged too
    lines: bool  # sample stacks while an operation runs, and name its hottest line


_DEPTH: Final = {
    Level.PRODUCTION: Depth(5.0, bottlenecks=True, hooks=False, lines=False),
    Level.BASIC: Depth(1.0, bottlenecks=False, hooks=False, lines=False),
    Level.DETAILED: Depth(0.0, bottlenecks=True, hooks=True, lines=False),
    Level.COMPREHENSIVE: Depth(0.0, bottlenecks=True, hooks=True, lines=True),
}


class MemoryDetail(enum.StrEnum):
    """Which memory is looked at closely, where that was asked for."""

    TENSORS = "tensors"
    PYTHON = "python"  # the Python heap, by line


class Replay(enum.StrEnum):
    """Whether operators of a step are run again after the program, to measure what other dtypes and
    layouts would save."""

    AUTO = "auto"  # where that takes little of the run's time
    FULL = "full"  # however long it takes
    OFF = "off"


class PlanWish(NamedTuple):
    """What is to be done about activation checkpoints. One of the first three is set."""

    memory: str = ""  # find a plan for that much memory: "4GiB", "60%"
    save: str = ""  # find one that saves that share: "40%"
    path: str = ""  # apply the plan in this file
    keep_going: bool = False  # once it is found: train on with it, to the program's own end


class TrialWish(NamedTuple):
    """How far a program is run, to be measured and no further. 0: no limit of that kind."""

    steps: int = 0  # that are made
    seconds: float = 0.0  # from the end of the first step on
    least_steps: int = 0  # made in any case, however long they take


class Settings(NamedTuple):
    """What a run is recorded with."""

    level: Level = Level.BASIC
    memory: tuple[MemoryDetail, ...] = ()
    plan: PlanWish | None = None
    changes: str = ""  # to make in the program: ENV_APPLY
    trial: TrialWish | None = None
    watch: str = ""  # the rules to watch it by: a path, or WATCH_DEFAULT; "": nobody watches
    limit_bytes: int = 200_000_000  # what a run may take on disk; 0: any
    replay: Replay = Replay.AUTO
    poll_interval_s: float = 1.0  # how often the launcher looks at what the program recorded

    @property
    def system_interval_s(self) -> float:
        """Time between two samples of the host and of the processes."""
        return _SYSTEM_INTERVAL_S[self.level]

    @property
    def stack_interval_s(self) -> float:
        """Time between two looks at the stacks of the program's threads, a mean."""
        return _STACK_INTERVAL_S[self.level]

    @classmethod
    def of_environment(cls, level: str | None) -> Settings:
        """What the launcher told the program (ENV_LEVEL); the defaults where that is no level."""
        return cls(Level(level)) if level in set(Level) else cls()


DEFAULTS: Final = Settings()

# Profiling from inside the code: what PerformanceProfiler and ProfilingConfig start from.
MEMORY_INTERVAL_S: Final = 0.5  # between two samples while an operation runs
MONITORING_INTERVAL_S: Final = 1.0
MAX_SAMPLES: Final = 4096  # runs of an operation that are recorded one by one
LINES_INTERVAL_S: Final = 0.001  # between two stacks where lines are profiled
ALERT_THRESHOLD: Final = 0.8  # severity
CPU_THRESHOLD_PERCENT: Final = 80.0
MEMORY_THRESHOLD_PERCENT: Final = 80.0
GPU_THRESHOLD_PERCENT: Final = 90.0

# BottleneckProfiler and its like. The thresholds of memory and GPU are the same as above.
REPORTS_FOLDER: Final = "bottleneck_reports"
SAMPLING_INTERVAL_S: Final = 0.1  # of the live monitoring
BOTTLENECK_THRESHOLD: Final = 0.05  # share of a session from which on an operation is named
BATCH_SIZES: Final = (1, 4, 8, 16, 32, 64)
WORKER_COUNTS: Final = (0, 1, 2, 4)
CACHE_SIZE: Final = 100  # results of preprocessing that are kept
