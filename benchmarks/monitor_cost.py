"""What does watching a training run cost?

The CPU share of a PerformanceMonitor that looks every 0.1 s and every second: CPU time of a process
that does nothing, in turns with the monitor and without it; and beside a training loop, where the
CPU time of training itself varies by more than a monitor takes, that of the monitor's own threads
and hooks. What a watched training process holds more than a bare one. And a week in some minutes
(monitor_week.py).

    python benchmarks/monitor_cost.py
    python benchmarks/monitor_cost.py --turns 2 --seconds 20 --week 200000
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

from harness import Result, Target, at_most, compile_package, progress, summary, table, turn
from monitor_week import WEEK_STEPS, simulate_week
from monitor_week import targets as week_targets
from processes import execute, script

PROGRAM = Path(__file__).parent / "programs" / "watched.py"
LIMITS = {0.1: 0.005, 1.0: 0.0005}  # interval → share of one CPU
MEMORY_LIMIT_MB = 10.0
STEPS = 1000  # of a small model, after which memory is compared
BARE, RUN, IN_CODE = "bare", "stepscope run --watch", "PerformanceMonitor"


def run_program(*arguments: object, under: tuple[str, ...] = ()) -> dict[str, Any]:
    """What it found. RuntimeError: it failed."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        result = folder / "result.json"
        python = () if under else (sys.executable,)
        command = [*under, *python, str(PROGRAM), str(result), *map(str, arguments)]
        done = execute(command, folder, timeout_s=3600)
        if done.problem or not result.exists():
            raise RuntimeError(f"{' '.join(command)}: {done.problem or 'no result'}")
        found: dict[str, Any] = json.loads(result.read_text())
        return found


def measure_idle(turns: int, seconds: float) -> dict[float, dict[str, Any]]:
    found = {}
    for interval_s in LIMITS:
        progress(f"idle, every {interval_s:g} s")
        raw = run_program("idle", interval_s, turns, seconds)
        (before,) = raw["before"]
        found[interval_s] = summary([on - before for on in raw["on"]]) | {
            "before": before,
            "between": statistics.median(raw["off"]),
        }
    return found


def measure_training(turns: int, seconds: float) -> dict[float, dict[str, Any]]:
    found: dict[float, list[dict[str, Any]]] = {interval_s: [] for interval_s in LIMITS}
    for number in range(turns):
        for interval_s in turn(list(LIMITS), number):
            progress(f"training, every {interval_s:g} s, turn {number + 1} of {turns}")
            found[interval_s].append(_run_training(interval_s, seconds))
    return {interval_s: _of_training(runs) for interval_s, runs in found.items()}


def _run_training(interval_s: float, seconds: float) -> dict[str, Any]:
    """Once more where another program made training slower, which is looked into: that is no cost
    of watching."""
    found = run_program("training", interval_s, seconds)
    for _ in range(2):
        if found["alerts"]:
            progress(f"  again: {found['alerts'][0]}")
            found = run_program("training", interval_s, seconds)
    return found


def _of_training(runs: list[dict[str, Any]]) -> dict[str, Any]:
    parts = ("threads", "hooks", "looks")
    shares = [sum(run[f"{part}_share"] for part in parts) for run in runs]
    return summary(shares) | {
        **{part: statistics.median(run[f"{part}_share"] for run in runs) for part in parts},
        "steps_per_s": statistics.median(run["steps"] / run["seconds"] for run in runs),
    }


def measure_memory(turns: int) -> dict[str, dict[str, Any]]:
    """MB more than a bare run of the same turn."""
    watched = (script("stepscope"), "run", "--level", "production", "--watch", "default", "--")
    arms: dict[str, tuple[tuple[str, ...], float]] = {
        BARE: ((), 0.0),
        RUN: ((*watched, sys.executable), 0.0),
        IN_CODE: ((), 1.0),
    }
    held: dict[str, list[float]] = {name: [] for name in arms}
    for number in range(turns):
        for name in turn(list(arms), number):
            progress(f"memory, {name}, turn {number + 1} of {turns}")
            under, interval_s = arms[name]
            held[name].append(run_program("memory", interval_s, STEPS, under=under)["rss_mb"])
    return {
        name: summary([ours - bare for ours, bare in zip(held[name], held[BARE], strict=True)])
        for name in (RUN, IN_CODE)
    } | {BARE: summary(held[BARE])}


def targets(
    idle: dict[float, dict[str, Any]],
    training: dict[float, dict[str, Any]],
    memory: dict[str, dict[str, Any]],
) -> list[Target]:
    found = []
    for interval_s, limit in LIMITS.items():
        every = f"every {interval_s:g} s, share of one CPU"
        found.append(at_most(f"idle, {every}", idle[interval_s]["median"], limit))
        found.append(at_most(f"beside training, {every}", training[interval_s]["median"], limit))
    held = {name: memory[name]["median"] for name in (RUN, IN_CODE)}
    found += [at_most(f"memory, {name}, MB", mb, MEMORY_LIMIT_MB) for name, mb in held.items()]
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description="What does watching a training run cost?")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=60.0, help="that each turn is measured")
    parser.add_argument("--week", type=int, default=WEEK_STEPS, help="steps of it; 0: without")
    wanted = parser.parse_args()
    compile_package()
    idle = measure_idle(wanted.turns, wanted.seconds)
    training = measure_training(wanted.turns, wanted.seconds)
    memory = measure_memory(wanted.turns)
    rows = [
        (f"{what}, every {interval_s:g} s", f"{figure['median']:.4%}", f"{figure['spread']:.4%}")
        for what, figures in (("idle", idle), ("beside training", training))
        for interval_s, figure in figures.items()
    ]
    print(table(("monitor, share of one CPU", "median", "spread"), rows))
    more = [(name, f"{memory[name]['median']:.1f} MB") for name in (RUN, IN_CODE)]
    print(table(("holds more than bare", "median"), more))
    figures: dict[str, Any] = {
        "idle": {str(key): value for key, value in idle.items()},
        "training": {str(key): value for key, value in training.items()},
        "memory": memory,
    }
    promised = targets(idle, training, memory)
    if wanted.week:
        progress("a week")
        figures["week"] = simulate_week(wanted.week)
        promised += week_targets(figures["week"])
    print(Result("monitor_cost", figures, promised).line())
    return 0


if __name__ == "__main__":
    sys.exit(main())
