"""Does a checkpoint plan fit, does it cost what was predicted, and is anything else better?

For each of three models and for budgets from 0.9 to 0.4 of the peak: the plan against
`checkpoint_sequential` with several numbers of segments, against checkpoints on every block, and
against torch's own `activation_memory_budget`. That one needs a compiled model: torch's partitioner
cuts the graph, and the kernels stay the same as without (no code is generated), so that only what
is kept differs ("torch 1.0" is the compiled model with nothing asked for).
All of them take turns in one process, a few steps each, and what is compared was measured in the
same rounds.

    python benchmarks/checkpoint_plan.py --rounds 15 [--models resnet]
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from harness import Result, Target, at_most, progress, table

BUDGETS = (0.9, 0.8, 0.7, 0.6, 0.5, 0.4)
SEGMENTS = (2, 3, 4, 6, 8, 12)
TORCHS_BUDGETS = (1.0, 0.8, 0.6, 0.4)  # 1.0: compiled, with nothing asked for
CHAIN_BLOCKS = 200
NOTHING, EVERYTHING = "nothing", "everything"
KINDS = ("sequential", EVERYTHING, "torch")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--models", nargs="*", default=["transformer", "resnet", "mixer"])
    parser.add_argument("--measure", help=argparse.SUPPRESS)  # one of them, in this process
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measure(options.measure, options.rounds)))
        return
    found = {}
    for model in [*options.models, "chain"]:
        progress(f"{model} …")
        found[model] = _elsewhere(model, options.rounds)
    print(_table({model: one for model, one in found.items() if model != "chain"}))
    targets = [target for model in options.models for target in _targets(model, found[model])]
    slowest = max(found["chain"]["plan_s"])
    targets.append(at_most(f"plan time, {CHAIN_BLOCKS} blocks (s)", slowest, 1.0))
    print(Result("checkpoint_plan", found, targets).line())


def _elsewhere(model: str, rounds: int) -> dict[str, Any]:
    """Each model has a process of its own, in which nothing else is live."""
    command = [sys.executable, __file__, "--measure", model, "--rounds", str(rounds)]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


# ---- in a process of its own ----


def measure(name: str, rounds: int) -> dict[str, Any]:
    import torch

    from programs.blocks import deep_chain, make
    from stepscope.checkpointing.meter import CpuMeter

    torch.set_num_threads(1)  # the other core is left to the machine
    meter = CpuMeter()
    if name == "chain":
        return _measure_chain(meter, deep_chain(CHAIN_BLOCKS))
    return _measure_model(meter, make(name), rounds)


def _measure_chain(meter: Any, trained: Any) -> dict[str, Any]:
    """From what was profiled to a plan. scipy is imported once a process, not once a plan."""
    import scipy.optimize  # noqa: F401

    from stepscope.checkpointing.posed import look, pose_seen

    seen = _drive(look(trained.model, meter), lambda: trained.step(trained.model))
    plan_s = []
    candidates = 0
    for budget in BUDGETS:
        began = time.perf_counter()
        posed = pose_seen(seen)
        candidates = len(posed.found)
        budget_bytes = int(budget * posed.problem.evaluate(()).peak_bytes)
        assert posed.problem.least_time(budget_bytes) is not None
        plan_s.append(time.perf_counter() - began)
    return {"plan_s": plan_s, "candidates": candidates}


def _drive(course: Generator[None, None, Any], step: Callable[[], None]) -> Any:
    """Run a course, a step of training at each of its yields; what it returns."""
    try:
        next(course)
        while True:
            step()
            next(course)
    except StopIteration as ended:
        return ended.value


def _measure_model(meter: Any, trained: Any, rounds: int) -> dict[str, Any]:
    from stepscope import CheckpointManager
    from stepscope.checkpointing.posed import pose
    from stepscope.checkpointing.trial import Trial

    model = trained.model
    for _ in range(3):
        trained.step(model)
    posed = _drive(pose(model, meter, CheckpointManager(model)), lambda: trained.step(model))
    peak_bytes = posed.problem.evaluate(()).peak_bytes
    choices = {one: posed.problem.least_time(int(one * peak_bytes)) for one in BUDGETS}
    plans = {one: posed.plan(choice, None) for one, choice in choices.items() if choice is not None}
    arms = _Arms(model, plans)
    # One step each: a round is short, and whatever slows the machine meets many of them.
    trial = Trial(meter, arms.switches, rounds, steps=1)
    _drive(trial.run(), lambda: trained.step(arms.call))
    times = _relative(trial.round_ms)
    peaks = {arm: trial.outcome(arm).peak_bytes for arm in arms.switches}
    base_ms = trial.outcome(NOTHING).step_ms
    return {
        "peak_mb": peaks[NOTHING] / 1e6,
        "step_ms": base_ms,
        "others": {
            arm: {"peak": peaks[arm] / peak_bytes, "time": times[arm]}
            for arm in arms.switches
            if not arm.startswith("plan")
        },
        "plans": [
            {
                "budget": budget,
                "fits": peaks[f"plan {budget}"] <= int(budget * peak_bytes),
                "peak": peaks[f"plan {budget}"] / peak_bytes,
                "peak_error": choice.peak_bytes / peaks[f"plan {budget}"] - 1,
                "time": times[f"plan {budget}"],
                "time_error": (1 + choice.recompute_ms / base_ms) / times[f"plan {budget}"] - 1,
                "segments": len(choice.chosen),
            }
            for budget, choice in choices.items()
            if choice is not None
        ],
    }


def _relative(round_ms: Mapping[str, Sequence[float]]) -> dict[str, float]:
    """Times a step with nothing recomputed. Each round is first divided by its own median, so that
    the speed that the machine had then does not count."""
    rounds = list(zip(*round_ms.values(), strict=True))
    speeds = [statistics.median(one) for one in rounds]
    even = {
        arm: statistics.median(ms / speed for ms, speed in zip(taken, speeds, strict=True))
        for arm, taken in round_ms.items()
    }
    return {arm: value / even[NOTHING] for arm, value in even.items()}


class _Arms:
    """What takes turns: each makes itself the one that is called."""

    def __init__(self, model: Any, plans: Mapping[float, Any]) -> None:
        from stepscope import CheckpointManager

        self.call: Callable[..., Any] = model
        self._model, self._manager = model, CheckpointManager(model)
        self.switches: dict[str, Callable[[], None]] = {NOTHING: self._clear}
        for budget, plan in plans.items():
            self.switches[f"plan {budget}"] = partial(self._plan, plan)
        self.switches[EVERYTHING] = self._everything
        for count in SEGMENTS:
            self.switches[f"sequential {count}"] = partial(self._sequential, count)
        for budget in TORCHS_BUDGETS:
            compiled = _compiled(model, budget)
            self.switches[f"torch {budget}"] = partial(self._take, compiled)

    def _clear(self) -> None:
        self._manager.remove()
        vars(self._model.blocks).pop("forward", None)
        self.call = self._model

    def _plan(self, plan: Any) -> None:
        self._clear()
        self._manager.apply(plan)

    def _everything(self) -> None:
        self._clear()
        self._manager.checkpoint("blocks.*")

    def _sequential(self, count: int) -> None:
        from torch.utils.checkpoint import checkpoint_sequential

        self._clear()
        blocks = list(self._model.blocks)
        self._model.blocks.forward = lambda x: checkpoint_sequential(
            blocks, count, x, use_reentrant=False
        )

    def _take(self, call: Callable[..., Any]) -> None:
        self._clear()
        self.call = call


def _compiled(model: Any, budget: float) -> Callable[..., Any]:
    import torch
    import torch._functorch.config as settings
    from functorch.compile import min_cut_rematerialization_partition, nop
    from torch._decomp import get_decompositions
    from torch._dynamo.backends.common import aot_autograd

    torch._dynamo.config.recompile_limit = 64
    partition = partial(min_cut_rematerialization_partition, compiler="inductor")
    # Of batch norm torch compiles the decomposed form only.
    aten = torch.ops.aten
    parts = get_decompositions(
        [
            aten.native_batch_norm,
            aten.native_batch_norm_backward,
            aten._native_batch_norm_legit_functional,
            aten._batch_norm_with_update_functional,
            aten.batch_norm_backward,
        ]
    )
    inner = aot_autograd(
        fw_compiler=nop, bw_compiler=nop, partition_fn=partition, decompositions=parts
    )

    def backend(graph: Any, inputs: Any, **more: Any) -> Any:
        with settings.patch(activation_memory_budget=budget):
            return inner(graph, inputs, **more)

    compiled: Callable[..., Any] = torch.compile(model, backend=backend)
    return compiled


# ---- what came out ----


def _best(found: Mapping[str, Any], kind: str, peak: float) -> float | None:
    """The least time of those of a kind that need no more memory; None: none of them fits."""
    return min(
        (
            one["time"]
            for arm, one in found["others"].items()
            if arm.startswith(kind) and one["peak"] <= peak
        ),
        default=None,
    )


def _targets(model: str, found: Mapping[str, Any]) -> Sequence[Target]:
    plans = found["plans"]
    made = [
        Target(f"{model}: plans that fit", sum(one["fits"] for one in plans), len(BUDGETS),
               sum(one["fits"] for one in plans) == len(BUDGETS)),
        at_most(f"{model}: error of the peak", max(abs(one["peak_error"]) for one in plans), 0.02),
        at_most(f"{model}: error of the time", max(abs(one["time_error"]) for one in plans), 0.10),
    ]  # fmt: skip
    for kind in KINDS:
        pairs = [(one["time"], _best(found, kind, one["budget"])) for one in plans]
        ratios = [ours / theirs for ours, theirs in pairs if theirs is not None]
        if ratios:
            made.append(at_most(f"{model}: time of the plan, times {kind}", max(ratios), 1.0))
    return made


def _table(found: Mapping[str, Any]) -> str:
    def text(value: float | None) -> str:
        return "–" if value is None else f"{value:.3f}"

    rows = [
        [
            f"{model} ≤ {one['budget']}",
            text(one["peak"]),
            f"{one['peak_error'] * 100:+.2f} %",
            text(one["time"]),
            f"{one['time_error'] * 100:+.1f} %",
            *(text(_best(values, kind, one["budget"])) for kind in KINDS),
        ]
        for model, values in found.items()
        for one in values["plans"]
    ]
    header = ["", "peak", "error", "time", "error", *KINDS]
    return table(header, rows)


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    main()
