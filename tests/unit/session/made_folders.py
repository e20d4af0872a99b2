"""Run folders with a summary, as a finished run leaves them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from stepscope.store.rundir import write_meta
from stepscope.store.summary import write_summary
from tests.unit.report.made_summary import input_bound

__all__ = ["make_run"]


def make_run(path: Path, step_ms: float, started_unix: float = 0.0, **meta: Any) -> Path:
    """A run whose steps all take so long."""
    path.mkdir(parents=True)
    about = {
        "name": path.name,
        "command": ["/usr/bin/python", "train.py"],
        "started_unix": started_unix,
        "ended_unix": started_unix + 5,
        "exit_code": 0,
    } | meta
    write_meta(path, about)
    made = input_bound()
    times = step_ms / (made.wall_ms / made.steps.count)
    steps = replace(
        made.steps,
        median_ms=step_ms,
        fast_ms=step_ms,
        p95_ms=step_ms,
        per_second=1000 / step_ms,
    )
    breakdown = tuple(part._replace(ms=part.ms * times) for part in made.breakdown)
    wall_ms = step_ms * made.steps.count
    write_summary(path, replace(made, run=about, steps=steps, wall_ms=wall_ms, breakdown=breakdown))
    return path
