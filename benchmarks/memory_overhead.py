"""What does looking at memory cost a training run?

Three small models are trained bare, under `stepscope run` with and without --memory, and under
other tools that look at memory. In every round each of them runs once in a process of its own, and
is compared with the bare run of the same round. What counts is the mean step: what a tool does on
few steps only, or between steps, is in it.

    python benchmarks/memory_overhead.py --rounds 5
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from harness import (
    Result,
    Target,
    at_most,
    compile_package,
    paired_ratios,
    progress,
    summary,
    table,
    turn,
)
from processes import UnavailableError, execute, script

PROGRAM = Path(__file__).parent / "programs" / "three_models.py"
# Few: what a tool does in the beginning is to count.
WARMUP_STEPS = 5
TIMEOUT_S = 180.0  # a run takes some five to fifteen seconds

BARE = "bare"
PLAIN = "stepscope"
OURS = "stepscope --memory"
PEERS = ("torch.profiler", "memray", "tracemalloc")


class Length(NamedTuple):
    """Steps that are timed. The other tools cost the same on every step and need fewer of them;
    torch.profiler keeps some 0.8 MB a tiny step, so more would not fit into memory."""

    steps: int
    of_peers: int

    def of(self, tool: str, scale: float) -> int:
        return max(1, round((self.of_peers if tool in PEERS else self.steps) * scale))


LENGTHS = {
    "tiny": Length(10_000, 1_000),
    "transformer": Length(80, 25),
    "cnn": Length(180, 50),
}

# How a user would start each: the command for a program and its arguments, in a scratch folder.
Command = Callable[[list[str], Path], list[str]]


def _stepscope(program: list[str], folder: Path, *options: str) -> list[str]:
    return [script("stepscope"), "run", "-o", str(folder / "run"), *options, *program]


def _memray(program: list[str], folder: Path) -> list[str]:
    out = str(folder / "memray.bin")
    return [sys.executable, "-m", "memray", "run", "--force", "-o", out, *program]


# The bare run stands beside ours: in the first two rounds one is right before or after the other.
COMMANDS: dict[str, Command] = {
    PLAIN: _stepscope,
    BARE: lambda program, _: [sys.executable, *program],
    OURS: lambda program, folder: _stepscope(program, folder, "--memory"),
    "torch.profiler": lambda program, _: [sys.executable, *program, "--torch-profiler"],
    "memray": _memray,
    "tracemalloc": lambda program, _: [sys.executable, "-X", "tracemalloc=1", *program],
}


@dataclass(frozen=True, slots=True)
class Run:
    """One run of the program, as it saw itself."""

    steps: int
    step_ms: float  # the mean: all steps and what happens between them
    median_step_ms: float
    cpu_ms: float  # a step, of all threads of the process
    rss_bytes: int  # after the last step
    peak_rss_bytes: int  # of the whole run, the end of Python included
    loss: float  # of the last step


Round = Mapping[str, Run]  # by tool


def as_run(seen: Mapping[str, Any]) -> Run:
    steps = len(seen["step_ns"])
    return Run(
        steps=steps,
        step_ms=seen["total_ns"] / steps / 1e6,
        median_step_ms=statistics.median(seen["step_ns"]) / 1e6,
        cpu_ms=seen["cpu_ns"] / steps / 1e6,
        rss_bytes=seen["rss_bytes"],
        peak_rss_bytes=seen["peak_rss_bytes"],
        loss=seen["loss"],
    )


def measure(tool: str, model: str, steps: int) -> Run:
    """Train a model once under a tool."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        out = folder / "out.json"
        arguments = ["--model", model, "--steps", str(steps), "--warmup", str(WARMUP_STEPS)]
        command = COMMANDS[tool]([str(PROGRAM), str(out), *arguments], folder)
        done = execute(command, folder, TIMEOUT_S)
        if done.problem or not out.exists():
            raise UnavailableError(done.problem or "the program did not get to its end")
        return as_run(json.loads(out.read_text()))


def one_round(
    number: int, tools: Sequence[str], model: str, scale: float
) -> dict[str, Run | UnavailableError]:
    """Every tool once, each round in another order."""
    results: dict[str, Run | UnavailableError] = {}
    for tool in turn(tools, number):
        try:
            run = measure(tool, model, LENGTHS[model].of(tool, scale))
        except UnavailableError as reason:
            progress(f"  {model}, {tool}: {reason}")
            results[tool] = reason
            continue
        progress(f"  {model}, {tool}: {run.step_ms:.3f} ms a step")
        results[tool] = run
    return results


def figures_of(rounds: Sequence[Round], tools: Collection[str]) -> dict[str, Any]:
    """The figures of one model, over all rounds. `tools`: those that ran in each of them."""
    bare = [runs[BARE] for runs in rounds]
    return {
        "bare_step_ms": summary([run.step_ms for run in bare]),
        # Below 1: others had the CPU meanwhile, and the figures are worth less.
        "bare_cpu_share": summary([run.cpu_ms / run.step_ms for run in bare]),
        "tools": {
            tool: _against_bare([runs[tool] for runs in rounds], bare)
            for tool in tools
            if tool != BARE
        },
        "ours_against": {
            peer: summary(
                paired_ratios(
                    [runs[OURS].step_ms for runs in rounds], [runs[peer].step_ms for runs in rounds]
                )
            )
            for peer in PEERS
            if peer in tools and OURS in tools
        },
    }


def _against_bare(runs: Sequence[Run], bare: Sequence[Run]) -> dict[str, Any]:
    def ratio(name: str) -> dict[str, float]:
        return summary(
            paired_ratios(
                [getattr(run, name) for run in runs], [getattr(run, name) for run in bare]
            )
        )

    def extra_share(name: str) -> dict[str, float]:
        """0.04: the process grew by 4 %."""
        found = ratio(name)
        return found | {key: found[key] - 1.0 for key in ("median", "low", "high")}

    end, peak = extra_share("rss_bytes"), extra_share("peak_rss_bytes")
    pairs = list(zip(runs, bare, strict=True))
    comparable = all(run.steps == reference.steps for run, reference in pairs)
    return {
        "step_ratio": ratio("step_ms"),
        "median_step_ratio": ratio("median_step_ms"),
        "cpu_ratio": ratio("cpu_ms"),
        "extra_rss_share": max(end, peak, key=lambda found: found["median"]),
        "extra_end_rss_share": end,
        "extra_peak_rss_share": peak,
        "steps": runs[0].steps,
        # After another number of steps the loss is another one.
        "same_loss": all(a.loss == b.loss for a, b in pairs) if comparable else None,
    }


def targets_of(models: Mapping[str, Mapping[str, Any]]) -> list[Target]:
    """What we promised, against what was measured."""
    targets: list[Target] = []
    for model, figures in models.items():
        ours, against = figures["tools"].get(OURS), figures["ours_against"]
        step = ours["step_ratio"]["median"] if ours else None
        memory = ours["extra_rss_share"]["median"] if ours else None
        targets.append(at_most(f"{model}: mean step with --memory, ratio to bare", step, 1.05))
        targets += [
            at_most(
                f"{model}: mean step with --memory, ratio to {peer}",
                against[peer]["median"] if peer in against else None,
                1.0,
            )
            for peer in PEERS
        ]
        targets.append(at_most(f"{model}: extra memory with --memory, share", memory, 0.05))
    return targets


def overview(model: str, figures: Mapping[str, Any]) -> str:
    def cell(figure: Mapping[str, float], scale: float, digits: int) -> str:
        return f"{figure['median'] * scale:.{digits}f} ±{figure['spread'] * scale:.{digits}f}"

    title = f"{model}, {figures['bare_step_ms']['median']:.3g} ms"
    header = (title, "step ×", "median step ×", "CPU ×", "RSS + %", "same loss")
    rows = [
        (
            tool,
            cell(found["step_ratio"], 1.0, 3),
            cell(found["median_step_ratio"], 1.0, 3),
            cell(found["cpu_ratio"], 1.0, 3),
            cell(found["extra_rss_share"], 100.0, 1),
            {True: "yes", False: "NO", None: ""}[found["same_loss"]],
        )
        for tool, found in figures["tools"].items()
    ]
    return table(header, rows) + "\n"


def measured(
    models: Sequence[str], tools: Sequence[str], rounds: int, scale: float
) -> tuple[dict[str, list[dict[str, Run]]], dict[str, str]]:
    """The runs of each model by round, and the tools that do not run here, with the reason.

    `tools`: the bare run among them.
    """
    taken: dict[str, list[dict[str, Run]]] = {model: [] for model in models}
    unavailable: dict[str, str] = {}
    measure(BARE, models[0], 1)  # brings the files into memory
    for number in range(rounds):
        progress(f"round {number + 1} of {rounds}")
        for model in models:
            left = [tool for tool in tools if tool not in unavailable]
            results = one_round(number, left, model, scale)
            reasons = {t: str(r) for t, r in results.items() if isinstance(r, UnavailableError)}
            if BARE in reasons:
                raise UnavailableError(reasons[BARE])
            unavailable |= reasons
            taken[model].append({t: r for t, r in results.items() if isinstance(r, Run)})
    return taken, unavailable


def main() -> int:
    parser = argparse.ArgumentParser(description="What does looking at memory cost a training run?")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--steps-scale", type=float, default=1.0, help="2: twice as many steps")
    parser.add_argument("--models", nargs="+", default=list(LENGTHS), choices=LENGTHS)
    names = [name for name in COMMANDS if name != BARE]
    parser.add_argument("--only", nargs="+", default=names, choices=names, metavar="TOOL")
    arguments = parser.parse_args()
    tools = [name for name in COMMANDS if name == BARE or name in arguments.only]

    compile_package()
    try:
        taken, unavailable = measured(
            arguments.models, tools, arguments.rounds, arguments.steps_scale
        )
    except UnavailableError as reason:
        progress(f"the bare program does not run: {reason}")
        return 1
    ran = [tool for tool in tools if tool not in unavailable]
    models = {model: figures_of(rounds, ran) for model, rounds in taken.items()}
    for model, figures in models.items():
        print(overview(model, figures))
    for tool, why in unavailable.items():
        print(f"{tool}: unavailable, {why}")
    figures = {"models": models, "unavailable": unavailable}
    print(Result("memory_overhead", figures, targets_of(models)).line())
    return 1 if OURS in unavailable else 0


if __name__ == "__main__":
    sys.exit(main())
