"""A figure over past runs: what `stepscope history` shows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from stepscope.model.comparison import Metric

__all__ = ["HistoryRun", "LevelChange", "Series"]


class HistoryRun(NamedTuple):
    """A run and its figure."""

    name: str
    started_unix: float | None
    value: float


class LevelChange(NamedTuple):
    """From the run at `place` on, the figure has another level. ratio: against the one before."""

    place: int
    ratio: float


@dataclass(frozen=True)
class Series:
    """Runs of one command, the oldest first."""

    label: str
    metric: Metric
    runs: tuple[HistoryRun, ...]
    changes: tuple[LevelChange, ...]
    levels: tuple[float, ...]  # of each run: that of the stretch it belongs to
    enough: bool = True  # runs to tell a change

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON."""
        return {
            "command": self.label,
            "metric": self.metric.key,
            "unit": self.metric.unit,
            "runs": [run._asdict() for run in self.runs],
            "changes": [
                change._asdict() | {"run": self.runs[change.place].name} for change in self.changes
            ],
        }
