"""Shows the alerts of runs."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import NamedTuple

from stepscope.config import RUNS_FOLDER
from stepscope.errors import StepscopeError
from stepscope.model.alert_list import RunAlerts
from stepscope.model.delivery import json_line
from stepscope.printer import show
from stepscope.store.alerts import alerts_of
from stepscope.store.index import list_runs
from stepscope.store.rundir import find_run, read_meta

__all__ = ["AlertsOptions", "read_alerts", "show_alerts"]


class AlertsOptions(NamedTuple):
    """What was asked for. all: every run that has alerts, instead of `run`."""

    run: str = "latest"
    all: bool = False
    json: bool = False


def show_alerts(options: AlertsOptions) -> None:
    """On stdout."""
    shown = read_alerts(options)
    if options.json:
        for one in shown:
            show(json_line(one.to_dict()))
        return
    from stepscope.report.alerts import render_alerts
    from stepscope.report.console import console_on

    render_alerts(shown, console_on(sys.stdout), time.time())


def read_alerts(options: AlertsOptions) -> list[RunAlerts]:
    """The newest run first; of all of them, those that have alerts."""
    runs = Path(RUNS_FOLDER)
    if not options.all:
        return [_alerts(find_run(runs, options.run), runs)]
    found = [_alerts(Path(entry.path), runs) for entry in list_runs(runs)]
    return [one for one in found if one.records]


def _alerts(run: Path, runs: Path) -> RunAlerts:
    try:
        meta = read_meta(run)
    except StepscopeError:
        meta = {}
    return RunAlerts(
        name=meta.get("name") or run.resolve().name,
        path=str(run),
        records=tuple(alerts_of(run, runs)),
        ended_unix=meta.get("ended_unix"),
    )
