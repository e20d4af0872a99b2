"""Does a search of few settings find a loader as fast as the best of all of them?

Six input pipelines, each slow in its own way, beside a step of training. A full grid (0 to 4
workers, 2 to 8 batches ahead) is measured, and the search (tune/loader_search.py) runs beside it.
What the search chose and the grid's best are then measured again, in turns: the best of thirteen
noisy figures is partly luck, and that has to be measured away.

    python benchmarks/loader_tuning.py
"""

from __future__ import annotations

import argparse
import math
import os
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.utils.data import DataLoader, default_collate

from harness import Result, at_most, paired_ratios, progress, summary, table, turn
from programs.pipelines import SAMPLES, Made, compute
from stepscope import BottleneckProfilerConfig
from stepscope.model.optimization import StepCosts
from stepscope.session.loader_trials import LoaderTrials
from stepscope.session.optimizing_loading import played_loader
from stepscope.tune.loader_search import Found, Limits, LoaderSettings, search_loader

LIMITS = Limits(most_workers=4)
BATCHES = 4000  # more than any measurement takes
PRESENT = LoaderSettings(0)
LEAST_PAIRS = 6


class Pipeline(NamedTuple):
    """What a sample takes, and what training does with a batch."""

    sample: Callable[[int], Any]
    step: StepCosts
    collate: Callable[[Sequence[Any]], Any] = default_collate


def _small(index: int) -> Any:
    return torch.full((64,), float(index))


def _cpu(index: int) -> Any:
    compute(0.8)
    return _small(index)


def _blocked(index: int) -> Any:
    time.sleep(0.0012)
    return _small(index)


def _latency(index: int) -> Any:
    """A batch is one answer of a server: its first sample waits for it."""
    if index % SAMPLES == 0:
        time.sleep(0.030 + 0.004 * (index // SAMPLES % 5))
    return _small(index)


def _array(index: int) -> Any:
    return np.full(192 * 1024, index % 256, dtype=np.uint8)


def _arrays(samples: Sequence[Any]) -> Any:
    return np.stack(list(samples))  # 3 MB, which no worker can send cheaply


def _mixed(index: int) -> Any:
    compute(0.4)
    time.sleep(0.0008)
    return _small(index)


PIPELINES = {
    "cpu": Pipeline(_cpu, StepCosts(0.004, 0.004)),
    "blocked": Pipeline(_blocked, StepCosts(0.006, 0.004)),
    "latency": Pipeline(_latency, StepCosts(0.006, 0.004)),
    "tiny": Pipeline(_small, StepCosts(0.003, 0.003)),
    "arrays": Pipeline(_array, StepCosts(0.003, 0.003), _arrays),
    "mixed": Pipeline(_mixed, StepCosts(0.015, 0.015)),
}


def loader_of(pipeline: Pipeline) -> Any:
    dataset = Made(BATCHES, pipeline.sample)
    return DataLoader(dataset, batch_size=SAMPLES, collate_fn=pipeline.collate)


def compare(pipeline: Pipeline, trial_s: float, rounds: int, seconds: float) -> dict[str, Any]:
    """The search first: it must not profit from what the grid has warmed up."""
    loader = loader_of(pipeline)
    trials = LoaderTrials(loader, pipeline.step, BottleneckProfilerConfig(), trial_s)
    began = time.perf_counter()
    model = played_loader(trials.look(), pipeline.step)
    found = search_loader(trials.measure, model, LIMITS, PRESENT, repeats=4)
    search_s = time.perf_counter() - began
    grid = measured_grid(trials, rounds)
    best = min(grid, key=grid.__getitem__)
    ratios = against_best(trials, found.best, best, seconds)
    return figures(found, grid, best, ratios) | {"search_s": search_s}


def measured_grid(trials: LoaderTrials, rounds: int) -> dict[LoaderSettings, float]:
    times_s: dict[LoaderSettings, list[float]] = {one: [] for one in LIMITS.grid()}
    for number in range(rounds):
        for settings in turn(list(times_s), number):
            times_s[settings].append(trials.measure(settings))
    return {settings: statistics.median(times) for settings, times in times_s.items()}


def against_best(
    trials: LoaderTrials, chosen: LoaderSettings, best: LoaderSettings, seconds: float
) -> list[float]:
    """Chosen over best, in turns, until that is known to 1.5 % or the time is over. Where both are
    the same it shows the noise of this machine."""
    mine: list[float] = []
    theirs: list[float] = []
    ends = time.perf_counter() + seconds
    while len(mine) < LEAST_PAIRS or (
        time.perf_counter() < ends and noise(paired_ratios(mine, theirs)) > 0.015
    ):
        for settings, times in turn([(chosen, mine), (best, theirs)], len(mine)):
            times.append(trials.measure(settings))
    return paired_ratios(mine, theirs)


def noise(ratios: Sequence[float]) -> float:
    """About one standard error of their median."""
    return 1.25 * summary(ratios)["spread"] / math.sqrt(len(ratios))


def figures(
    found: Found, grid: dict[LoaderSettings, float], best: LoaderSettings, ratios: list[float]
) -> dict[str, Any]:
    return {
        "chosen": str(found.best),
        "best": str(best),
        "same": found.best == best,
        "measured_share": len(found.times_s) / len(grid),
        # The same setting is as fast as itself: what was measured is the noise then.
        "ratio": 1.0 if found.best == best else statistics.median(ratios),
        "measured_ratio": statistics.median(ratios),
        "noise": noise(ratios),
        "pairs": len(ratios),
        "gain": grid[PRESENT] / grid[best],
        "grid_ms": {str(one): seconds * 1e3 for one, seconds in grid.items()},
        "search_ms": {str(one): found.time_s(one) * 1e3 for one in found.times_s},
    }


def main() -> int:
    parser = argparse.ArgumentParser(description="Does the search find the best loader?")
    parser.add_argument("--trial", type=float, default=0.4, help="seconds of a measurement")
    parser.add_argument("--rounds", type=int, default=2, help="of the grid")
    parser.add_argument("--seconds", type=float, default=30.0, help="for chosen against best")
    parser.add_argument("--only", nargs="*", default=[], choices=list(PIPELINES))
    arguments = parser.parse_args()

    warnings.simplefilter("ignore")  # torch's, about more workers than CPUs: they are the point
    torch.set_num_threads(1)
    found = {}
    for name in arguments.only or PIPELINES:
        one = compare(PIPELINES[name], arguments.trial, arguments.rounds, arguments.seconds)
        found[name] = one
        progress(f"{name}: {one['chosen']} against {one['best']}: {one['ratio']:.3f}")
    rows = [
        (
            name,
            one["chosen"],
            one["best"],
            f"{one['measured_share']:.2f}",
            f"{one['ratio']:.3f} ±{one['noise']:.3f}",
            f"{one['gain']:.2f}",
            f"{one['search_s']:.1f}",
        )
        for name, one in found.items()
    ]
    header = ("", "chosen", "best of the grid", "measured", "ratio", "best × none", "search s")
    print(table(header, rows))
    share = max(one["measured_share"] for one in found.values())
    targets = [at_most("settings measured, of the grid", share, 1 / 3)]
    targets += [
        at_most(f"{name}: time against the grid's best", one["ratio"], 1.05)
        for name, one in found.items()
    ]
    print(Result("loader_tuning", {"load": os.getloadavg()[0], "pipelines": found}, targets).line())
    return 0


if __name__ == "__main__":
    sys.exit(main())
