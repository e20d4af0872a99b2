"""A run at a moment, made up: nothing in it was measured."""

from __future__ import annotations

import math
from typing import Any

from stepscope.model.alert import Alert, AlertState
from stepscope.model.finding import Finding, Location, Recommendation
from stepscope.model.live import (
    GpuNow,
    History,
    Left,
    LiveView,
    PhaseNow,
    RankNow,
    RunState,
    ToldNow,
    Unit,
    Used,
)

NOW_UNIX = 1_800_000_000.0


def made_finding(kind: str = "slowdown", title: str = "", severity: float = 0.8) -> Finding:
    return Finding(
        kind=kind,
        title=title or "steps take 31 % longer since step 812",
        share=0.31,
        severity=severity,
        confidence=0.94,
        evidence=("The median of the last 15 steps is 81 ms; before it was 62 ms.",),
        missing=("whether another program began to use the CPUs",),
        location=Location("train.py", 48, "augment"),
        measures={"ratio": 1.31},
        recommendation=Recommendation(
            "Move the augmentation into the loader's workers",
            "Call augment() in Dataset.__getitem__, so that it runs while the model trains.",
            expected_speedup=(1.2, 1.3),
            risk="Random numbers are drawn in another order.",
        ),
    )


def made_alert(number: int = 1, *, is_firing: bool = True, **others: Any) -> Alert:
    told: dict[str, Any] = {
        "id": f"run-{number}",
        "rule": "slowdown",
        "finding": made_finding(),
        "state": AlertState.FIRING if is_firing else AlertState.RESOLVED,
        "run": "mnist",
        "host": "box",
        "began_unix": NOW_UNIX - 200.0,
        "told_unix": NOW_UNIX - 190.0,
        "step": 812,
        "ended_unix": None if is_firing else NOW_UNIX - 100.0,
    }
    return Alert(**(told | others))


def made_view(**others: Any) -> LiveView:
    wave = tuple(60 + 20 * math.sin(at / 9) for at in range(120))
    told: dict[str, Any] = {
        "run": "mnist",
        "state": RunState.RUNNING,
        "told_unix": NOW_UNIX,
        "command": "python train.py --epochs 10",
        "started_unix": NOW_UNIX - 723.0,
        "elapsed_s": 723.0,
        "steps": 11_734,
        "steps_per_second": 16.23,
        "step_ms": 61.7,
        "since_step_s": 0.3,
        "ends": Left(4320.0, 3900.0, 4800.0),
        "recent_s": 30.2,
        "phases": (
            PhaseNow("input wait", 0.58, 0.61),
            PhaseNow("forward", 0.15, 0.14),
            PhaseNow("backward", 0.19, 0.18),
            PhaseNow("optimizer", 0.04, 0.04),
            PhaseNow("evaluation", 0.03, 0.0),
            PhaseNow("python between", 0.01, 0.03),
        ),
        "used": Used(
            cpus=1.9,
            cpu_count=2.0,
            host_cpu_share=0.97,
            memory_bytes=3.1e9,
            memory_limit_bytes=16e9,
            memory_full=Left(5400.0, 4000.0, 7000.0),
            disk_read_bytes_per_s=12.3e6,
            disk_write_bytes_per_s=0.0,
            gpus=(GpuNow(0, 0.41, 9.1e9, 24e9, 71.0, 210.0),),
        ),
        "history": (
            History("step time", Unit.MILLISECONDS, wave),
            History("steps/s", Unit.PER_SECOND, tuple(1000 / point for point in wave)),
            History("input wait", Unit.SHARE, tuple(point / 100 for point in wave)),
            History("CPU", Unit.CPUS, tuple(point / 40 for point in wave)),
            History("memory", Unit.BYTES, tuple(1e9 + at * 2e7 for at in range(120))),
            History("GPU", Unit.SHARE, (None, *(point / 100 for point in wave[1:]))),
        ),
        "alerts": (
            made_alert(1),
            made_alert(
                2,
                rule="memory",
                finding=made_finding("leak", "memory grows by 1.2 MB a step", 0.5),
                capture="capture-0001.json",
            ),
            made_alert(3, is_firing=False, rule="stall", finding=made_finding("stall", "no step")),
        ),
        "verdict": made_finding("input-cpu", "training waits for its data 58 % of the time", 0.9),
        "told": (ToldNow("loss", 0.3127, 11_734, tuple(2.3 / (1 + at) for at in range(120))),),
        "ranks": (RankNow(0, 11_734, 61.7, "input wait", 0.61),),
    }
    return LiveView(**(told | others))
