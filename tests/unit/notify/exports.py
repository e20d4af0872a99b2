"""What the tests of exporters share: a run, an alert, readings of everything that there is."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from stepscope.model.alert import Alert, AlertState
from stepscope.model.finding import Finding, Location, Recommendation
from stepscope.model.metric_table import METRICS
from stepscope.model.watching import Reading
from stepscope.notify.options import Options
from stepscope.notify.sink import SinkContext

__all__ = ["ALERT", "RESOLVED", "context", "every_metric", "options"]

ALERT = Alert(
    id="a1",
    rule="slowdown",
    finding=Finding(
        "slowdown",
        "Steps take 40 % longer",
        share=0.4,
        severity=0.8,
        confidence=0.9,
        location=Location("train.py", 12, "step"),
        recommendation=Recommendation("Read less", "Cache the files."),
    ),
    state=AlertState.FIRING,
    run="monday",
    host="box",
    began_unix=1_700_000_000.0,
    told_unix=1_700_000_002.0,
    step=120,
    metric="step_seconds",
    value=0.14,
    limit=0.1,
)
RESOLVED = replace(
    ALERT, state=AlertState.RESOLVED, told_unix=1_700_000_100.0, ended_unix=1_700_000_099.0
)


def context(folder: Path, **labels: str) -> SinkContext:
    return SinkContext("monday", "box", 4711, folder, labels)


def options(type: str, **table: Any) -> Options:
    return Options(table, type)


def every_metric() -> list[Reading]:
    """One reading of each metric of the table: 1 of the first, 2 of the second, and so on."""
    labels = {"phase": "backward", "gpu": "0", "rule": "stall", "rule/kind": "stall/stall"}
    return [
        Reading(at, metric.name, float(at), labels.get(metric.label, ""), 0, 7)
        for at, metric in enumerate(METRICS.values(), 1)
    ]
