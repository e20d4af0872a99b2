"""The settings of a run, each default stated once, and the variables that carry them to the child.

The training process imports this module: keep it free of heavy imports (dataclasses among them).
"""

from __future__ import annotations

import enum
from typing import Final, NamedTuple

__all__ = [
    "DEFAULTS",
    "ENV_PACKAGE",
    "ENV_RUN",
    "ENV_STATUS",
    "RUNS_FOLDER",
    "Level",
    "Settings",
]

# How the launcher speaks to the processes below it.
ENV_RUN: Final = "STEPSCOPE_RUN"  # absolute path of the run folder; absent: do not record
ENV_STATUS: Final = "STEPSCOPE_STATUS"  # folder for status pages
ENV_PACKAGE: Final = "STEPSCOPE_PACKAGE"  # folder to import stepscope from

RUNS_FOLDER: Final = "runs"


class Level(enum.StrEnum):
    """How much is recorded. `production` costs least, `comprehensive` most."""

    PRODUCTION = "production"
    BASIC = "basic"
    DETAILED = "detailed"
    COMPREHENSIVE = "comprehensive"


_SYSTEM_INTERVAL_S: Final = {
    Level.PRODUCTION: 5.0,
    Level.BASIC: 1.0,
    Level.DETAILED: 0.5,
    Level.COMPREHENSIVE: 0.2,
}


class Settings(NamedTuple):
    """What a run is recorded with."""

    level: Level = Level.BASIC
    poll_interval_s: float = 1.0  # how often the launcher looks at what the program recorded

    @property
    def system_interval_s(self) -> float:
        """Time between two samples of the host and of the processes."""
        return _SYSTEM_INTERVAL_S[self.level]


DEFAULTS: Final = Settings()
