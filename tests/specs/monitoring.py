"""The blocks of specification 003 about PerformanceMonitor, alerts and reports."""

from __future__ import annotations

import json
import math
import os
import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import stepscope
from stepscope import AdvancedProfiler, PerformanceMonitor, ProfilingConfig
from tests.specs.case import Case, Names
from tests.specs.optimization import a_loader_that_cannot_be_faster, a_training

__all__ = ["CASES"]


class Log:
    """A logger that keeps what it was told."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, str]] = []

    def warning(self, text: str) -> None:
        self.lines.append(("warning", text))

    def info(self, text: str) -> None:
        self.lines.append(("info", text))


# ---- a monitor by itself ----


def a_configuration_and_a_handler() -> dict[str, Any]:
    told: list[Any] = []
    rules = {"threshold": [{"metric": "memory_bytes", "above": "1MB", "severity": 0.9}]}
    config = ProfilingConfig(monitoring_interval=0.1, rules=rules)
    return {"config": config, "alert_handler": told.append, "told": told}


def it_watched_and_told(names: Names, printed: str) -> None:
    summary = json.loads(json.dumps(names["summary"], allow_nan=False))
    assert summary["avg_cpu_usage"] >= 0
    assert 0.01 < summary["avg_memory_usage"] < 100
    assert summary["alert_count"] == len(names["told"]) == 1
    assert names["told"][0]["severity"] == 0.9
    assert not names["monitor"].is_monitoring


# ---- while training ----


def a_training_that_diverges() -> dict[str, Any]:
    names = a_training()
    step = names["training_step"]
    losses: list[float] = []

    def train_epoch(model: Any, dataloader: Any, optimizer: Any) -> None:
        for batch in dataloader:
            losses.append(step(model, batch, optimizer))
            stepscope.metric("loss", math.nan if len(losses) > 6 else losses[-1])

    return names | {"train_epoch": train_epoch, "optimizer": None, "logger": Log()}


def each_epoch_is_summed_up_and_the_alert_is_logged(names: Names, printed: str) -> None:
    lines = printed.splitlines()
    assert len(lines) == 2 * names["num_epochs"]
    assert all(re.fullmatch(r"Avg CPU: \d+\.\d%", line) for line in lines[::2])
    assert all(re.fullmatch(r"Avg Memory: \d+\.\d\dGB", line) for line in lines[1::2])
    alerts = [text for level, text in names["logger"].lines if level == "warning"]
    assert all(text.startswith("Performance alert: ") for text in alerts)
    assert len([text for text in alerts if "loss" in text]) == 1, alerts
    assert names["monitor"].get_monitoring_summary()["steps"] > 0
    kinds = [alert["kind"] for alert in names["monitor"].alerts if alert.is_firing]
    assert "loss-not-finite" in kinds


# ---- a handler ----


def what_the_handler_calls() -> dict[str, Any]:
    called: list[str] = []

    def noting(name: str) -> Callable[..., Any]:
        async def note(*alert: Any) -> None:
            called.append(name)

        return note

    calls = ("send_critical_alert", "send_warning_alert", "scale_resources")
    return {name: noting(name) for name in calls} | {"logger": Log(), "called": called}


def it_goes_by_the_severity(names: Names, printed: str) -> None:
    thresholds = [
        {"metric": "heat", "above": limit, "severity": severity, "name": f"limit {limit}"}
        for limit, severity in ((1, 0.5), (2, 0.8), (3, 0.95))
    ]
    config = ProfilingConfig(rules={"threshold": thresholds}, alert_threshold=0.5)
    monitor = PerformanceMonitor(config)
    monitor.add_alert_callback(names["performance_alert_handler"])
    with monitor:
        stepscope.metric("heat", 4.0)
    assert sorted(names["called"]) == [
        "scale_resources",
        "send_critical_alert",
        "send_warning_alert",
    ]
    ((level, text),) = names["logger"].lines
    assert level == "info"
    assert text.startswith("Performance alert: limit 1")


# ---- everything in one report ----


def results_of_everything() -> dict[str, Any]:
    os.chdir(tempfile.mkdtemp(prefix="stepscope-spec-"))
    names = a_training()
    profiler = AdvancedProfiler()
    optimizer = stepscope.CodeOptimizer(profiler)
    monitor = PerformanceMonitor()
    monitor.start_monitoring()
    profiler.start_profiling()
    for batch in names["dataloader"]:
        names["training_step"](names["model"], batch, None)
    results = profiler.stop_profiling()
    optimizer.optimize_data_loading(a_loader_that_cannot_be_faster())
    return {
        "profiler": profiler,
        "optimizer": optimizer,
        "monitor": monitor,
        "results": results,
        "json": json,
    }


def the_report_is_a_file(names: Names, printed: str) -> None:
    saved = json.loads(Path("performance_report.json").read_text("utf-8"))
    assert set(saved) == {"summary", "optimizations", "monitoring", "recommendations"}
    assert saved["summary"]["data"]["calls"] == 6
    assert saved["optimizations"]["optimizations"][0]["target"] == "data loading"
    assert saved["monitoring"]["is_monitoring"] is True
    assert saved["monitoring"]["avg_memory_usage"] > 0
    for advice in saved["recommendations"]:
        assert {"kind", "title", "action", "expected_speedup", "location"} <= set(advice)
    names["monitor"].stop_monitoring()


CASES: dict[str, Case] = {
    "6. PerformanceMonitor": Case(it_watched_and_told, a_configuration_and_a_handler),
    "Real-Time Monitoring": Case(
        each_epoch_is_summed_up_and_the_alert_is_logged, a_training_that_diverges
    ),
    "Performance Alerts": Case(it_goes_by_the_severity, what_the_handler_calls),
    "Performance Reports": Case(the_report_is_a_file, results_of_everything),
}
