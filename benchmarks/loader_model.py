"""Is the loader as fast as the model of it says?

Six input pipelines, each slow in its own way. What a batch costs is measured at two settings; from
that the throughput at 0 to 4 workers is predicted (advise/simulate.py), and then measured.

    python benchmarks/loader_model.py
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
import warnings
from collections.abc import Mapping
from typing import Any

from harness import Result, at_most, progress, table, turn
from programs.batch_costs import Costs, measure, throughput
from programs.pipelines import MAIN_WAIT_MS, PIPELINES
from stepscope.advise.simulate import Loader, fitted, near_best, simulated

WORKERS = (0, 1, 2, 3, 4)
LOOKED_INTO = (0, 2)  # the settings that are measured from inside


def loader_of(costs: Costs) -> Loader:
    """As it was measured, beside as much other load as explains its throughput."""
    computing_s = min(costs.main_cpu_s, costs.main_s)
    loader = Loader(
        made=costs.made,
        main_s=computing_s + MAIN_WAIT_MS / 1e3,  # without waiting for a CPU: playing adds that
        main_cpu_s=costs.main_cpu_s,
        cores=float(len(os.sched_getaffinity(0))),
        send_s=costs.send_s,
        receive_s=costs.receive_s,
    )
    return fitted(loader, costs.workers, 1.0 / costs.batch_s)


def predict(costs: Mapping[int, Costs]) -> dict[int, float]:
    """Batches a second by number of workers."""
    alone, many = (loader_of(costs[workers]) for workers in LOOKED_INTO)
    return {workers: simulated(many if workers else alone, workers) for workers in WORKERS}


def judge(predicted: Mapping[int, float], measured: Mapping[int, float]) -> dict[str, Any]:
    errors = {w: abs(predicted[w] / measured[w] - 1.0) for w in WORKERS}
    pick = near_best([predicted[w] for w in WORKERS])
    return {
        "predicted": {str(w): predicted[w] for w in WORKERS},
        "measured": {str(w): measured[w] for w in WORKERS},
        "error": {str(w): errors[w] for w in WORKERS},
        "chosen": pick,
        "below_best": 1.0 - measured[pick] / max(measured.values()),
    }


def run(batches: int, rounds: int, seconds: float) -> dict[str, dict[str, Any]]:
    """In rounds: the machine is never quite quiet, and prediction and measurement shall meet the
    same load. After `seconds` no further round begins: on a busy machine there are fewer."""
    found = {}
    began, each_s = time.perf_counter(), seconds / len(PIPELINES)
    for place, (name, pipeline) in enumerate(PIPELINES.items(), 1):
        predicted: dict[int, list[float]] = {workers: [] for workers in WORKERS}
        measured: dict[int, list[float]] = {workers: [] for workers in WORKERS}
        for number in range(rounds):
            if number and time.perf_counter() - began > place * each_s:
                break
            costs = {workers: measure(pipeline, workers, batches) for workers in LOOKED_INTO}
            for workers, rate in predict(costs).items():
                predicted[workers].append(rate)
            for workers in turn(WORKERS, number):
                measured[workers].append(throughput(pipeline, workers, batches))
        found[name] = judge(_medians(predicted), _medians(measured))
        found[name]["rounds"] = len(measured[0])
        progress(f"{name}: {_line(found[name])}")
    return found


def _medians(values: Mapping[int, list[float]]) -> dict[int, float]:
    return {workers: statistics.median(rates) for workers, rates in values.items()}


def _line(found: Mapping[str, Any]) -> str:
    each = (f"{w}: {found['predicted'][w]:.1f}/{found['measured'][w]:.1f}" for w in found["error"])
    return ", ".join(each)


def main() -> int:
    parser = argparse.ArgumentParser(description="Is the loader as fast as its model says?")
    parser.add_argument("--batches", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=240.0, help="no new round after that")
    arguments = parser.parse_args()

    warnings.simplefilter("ignore")  # torch's, about more workers than CPUs: they are the point
    found = run(arguments.batches, arguments.rounds, arguments.seconds)
    rows = [
        (
            name,
            *(f"{one['predicted'][w]:.1f}/{one['measured'][w]:.1f}" for w in one["error"]),
            str(one["chosen"]),
            f"{one['below_best']:.1%}",
        )
        for name, one in found.items()
    ]
    header = ("predicted/measured a second", *(f"{w} workers" for w in WORKERS), "chosen", "below")
    print(table(header, rows))
    errors = [error for one in found.values() for error in one["error"].values()]
    worst = max(one["below_best"] for one in found.values())
    targets = [
        at_most("median error of the throughput", statistics.median(errors), 0.10),
        at_most("chosen workers below the best measured", worst, 0.05),
    ]
    figures = {"load": os.getloadavg()[0], "pipelines": found}
    print(Result("loader_model", figures, targets).line())
    return 0


if __name__ == "__main__":
    sys.exit(main())
