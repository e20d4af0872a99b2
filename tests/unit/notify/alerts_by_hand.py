"""Alerts as a monitor makes them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from stepscope.model.alert import Alert, AlertState
from stepscope.model.finding import Finding, Location, Recommendation
from stepscope.notify.sink import SinkContext

ADVICE = Recommendation("Use workers", "DataLoader(..., num_workers=4)")
FINDING = Finding(
    "slowdown",
    "steps take 30 % longer <since> 12 & on",
    0.3,
    0.9,
    0.8,
    evidence=("the median was 100 ms", "it is 130 ms"),
    location=Location("train.py", 7, "main"),
    recommendation=ADVICE,
)


def firing(id: str = "a", **more: Any) -> Alert:
    alert = Alert(
        id, "slowdown", FINDING, AlertState.FIRING, "r", "node-1", 1_700_000_000.0, 1_700_000_003.5,
        step=12, ranks=(0, 3), metric="step_seconds", value=0.13, limit=0.1,
    )  # fmt: skip
    return replace(alert, **more)


def resolved(id: str = "a", **more: Any) -> Alert:
    ended = {"told_unix": 1_700_000_070.0, "ended_unix": 1_700_000_060.0}
    return firing(id, **{"state": AlertState.RESOLVED, **ended, **more})


def context(folder: Path) -> SinkContext:
    return SinkContext("r", "node-1", 4711, folder, {"team": "vision"})
