"""What does a profiler cost a training run?

A small transformer is trained bare and under each tool. Two comparisons are made in every round:

- The step: a run under the tool and a bare run are alive at once, on one core, and take turns of a
  few steps (turns.py). Nothing coarser sees 1 % on a shared machine: runs after one another differ
  by 3 % and more with no tool at all.
- The whole run: CPU, wall clock, memory and start-up, against the bare runs before and after it.

"bare again" is a bare run in the place of a tool. It shows the noise: what lies within it is not a
difference.

Then stepscope alone, in programs whose steps are 0.2 to 300 ms long, in two ranks and with workers
that start anew each epoch (short_steps.py): the step against the bare one, and the cost that
stepscope prints against the one that was measured.

    python benchmarks/overhead.py --rounds 5 --steps 90
    python benchmarks/overhead.py --quick              # the short steps alone, one round
    python benchmarks/overhead.py --only --subjects ddp workers
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import short_steps
import turns
from dead_sinks import dead_sinks
from harness import Result, Target, at_most, compile_package, progress, summary, table, turn
from processes import Execution, UnavailableError, execute, script

PROGRAM = Path(__file__).parent / "programs" / "transformer.py"
WARMUP_STEPS = 10
TIMEOUT_S = 90.0  # a run takes some five to ten seconds
TURN_STEPS = 5
MB = 1e6

BARE = "bare"
AGAIN = "bare again"
OURS = "stepscope"
DETAILED = "stepscope --level detailed"
WATCHED = "stepscope --watch"
DEAD_SINKS = "stepscope --watch, sinks that hang, fail and refuse"
ALERTING = ("memory_bytes", "steps_total", "host_memory_ratio")
OWN = (OURS, DETAILED, WATCHED, DEAD_SINKS)


@dataclass(frozen=True, slots=True)
class Run:
    """One run of the program, from the outside and as the program saw itself."""

    wall_s: float
    cpu_s: float  # of the whole process tree
    step_s: float  # median of the program's own steps
    contention: float  # 0.1: a tenth of its running time the thread waited for a CPU in use
    first_line_s: float  # from the start of the command to the first line of the program
    torch_ready_s: float  # and to the line after `import torch`
    peak_rss_bytes: float  # of the training process alone
    rss_bytes: (
        float  # the same at its end: a peak during `import torch` would hide what comes later
    )
    losses: tuple[float, ...]


NUMBERS = tuple(item.name for item in fields(Run) if item.name != "losses")


# How a user would start each: the command for a program and its arguments, in a scratch folder.
Command = Callable[[list[str], Path], list[str]]


def _scalene(program: list[str], folder: Path, *options: str) -> list[str]:
    out = str(folder / "scalene.json")
    return [script("scalene"), "run", *options, "-o", out, program[0], "---", *program[1:]]


def _stepscope(program: list[str], folder: Path, level: str) -> list[str]:
    return [script("stepscope"), "run", "-o", str(folder / "run"), "--level", level, *program]


def _watched(program: list[str], folder: Path, sinks: Sequence[str]) -> list[str]:
    """With limits that are passed all the time: every run has alerts to tell."""
    limits = [f'[[threshold]]\nmetric = "{name}"\nabove = 0\n' for name in ALERTING]
    tables = [f'[[sink]]\ntype = "webhook"\nurl = "{url}"\n' for url in sinks]
    rules = folder / "rules.toml"
    rules.write_text('[watch]\nhold = "0s"\n' + "".join([*limits, *tables]))
    run = [script("stepscope"), "run", "-o", str(folder / "run"), "--watch", str(rules)]
    return [*run, *program]


COMMANDS: dict[str, Command] = {
    BARE: lambda program, _: [sys.executable, *program],
    AGAIN: lambda program, _: [sys.executable, *program],
    OURS: lambda program, folder: _stepscope(program, folder, "basic"),
    DETAILED: lambda program, folder: _stepscope(program, folder, "detailed"),
    WATCHED: lambda program, folder: _watched(program, folder, ()),
    DEAD_SINKS: lambda program, folder: _watched(program, folder, dead_sinks()),
    "torch.profiler": lambda program, _: [sys.executable, *program, "--torch-profiler"],
    "pyinstrument": lambda program, _: [script("pyinstrument"), *program],
    "scalene": _scalene,
    "scalene --cpu-only": lambda program, folder: _scalene(program, folder, "--cpu-only"),
}


def measure(name: str, steps: int) -> Run:
    """Run the program once under a tool."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        out = folder / "out.json"
        command = COMMANDS[name]([str(PROGRAM), str(out), "--steps", str(steps)], folder)
        done = execute(command, folder, TIMEOUT_S)
        if done.problem or not out.exists():
            raise UnavailableError(done.problem or "the program did not get to its end")
        return _as_run(json.loads(out.read_text()), done)


def step_ratio(name: str, steps: int, against: str = BARE) -> float:
    """The step under a tool against the bare one, or another tool's, from runs that take turns."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        subjects = [_Subject(who, steps, folder / str(i)) for i, who in enumerate((name, against))]
        players = [subject.player for subject in subjects]
        try:
            turns.play(players, steps // TURN_STEPS, lambda: all(s.is_alive() for s in subjects))
            ours, theirs = (subject.steps_s() for subject in subjects)
        except turns.TurnsError as error:
            raise UnavailableError(str(error)) from error
        finally:
            for subject in subjects:
                subject.close()
        return statistics.median(turns.turn_ratios(ours, theirs, TURN_STEPS))


class _Subject:
    """A run that takes turns with another one."""

    def __init__(self, name: str, steps: int, folder: Path) -> None:
        folder.mkdir()
        self.player = turns.Player(folder / "turns")
        self._out = folder / "out.json"
        arguments = ["--steps", str(steps), "--turns", str(self.player.folder)]
        arguments += ["--turn-steps", str(TURN_STEPS)]
        command = COMMANDS[name]([str(PROGRAM), str(self._out), *arguments], folder)
        self._process = subprocess.Popen(
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def is_alive(self) -> bool:
        return self._process.poll() is None

    def steps_s(self) -> list[float]:
        try:
            self._process.wait(TIMEOUT_S)
            return list(json.loads(self._out.read_text())["step_s"])
        except (OSError, subprocess.TimeoutExpired) as error:
            raise turns.TurnsError("it did not get to its end") from error

    def close(self) -> None:
        self.player.close()
        if self.is_alive():
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()


def _as_run(seen: dict[str, Any], done: Execution) -> Run:
    return Run(
        wall_s=done.ended - done.began,
        cpu_s=done.cpu_s,
        step_s=statistics.median(seen["step_s"][WARMUP_STEPS:] or seen["step_s"]),
        contention=seen["contention"],
        first_line_s=seen["first_line"] - done.began,
        torch_ready_s=seen["torch_ready"] - done.began,
        peak_rss_bytes=seen["peak_rss_bytes"],
        rss_bytes=seen["rss_bytes"],
        losses=tuple(seen["losses"]),
    )


@dataclass(frozen=True, slots=True)
class Comparison:
    """A run under a tool, and what a bare run would have been at that moment."""

    run: Run
    bare: Run
    step_ratio: float  # from runs that take turns
    against_watched: float | None = None  # likewise, where only the sinks differ


def between(before: Run, after: Run) -> Run:
    """What a bare run would have been between two bare runs."""
    means = {name: (getattr(before, name) + getattr(after, name)) / 2 for name in NUMBERS}
    return replace(before, **means)


def one_round(
    number: int, names: Sequence[str], steps: int
) -> dict[str, Comparison | UnavailableError]:
    """Every tool once: a whole run between two bare ones, and steps in turns with a bare one."""
    results: dict[str, Comparison | UnavailableError] = {}
    before = measure(BARE, steps)
    for name in turn(names, number):
        try:
            run = measure(name, steps)
            ratio = step_ratio(name, steps)
            watched = step_ratio(name, steps, WATCHED) if name == DEAD_SINKS else None
        except UnavailableError as reason:
            progress(f"  {name}: {reason}")
            results[name] = reason
            continue
        after = measure(BARE, steps)
        bare = between(before, after)
        results[name] = Comparison(run, bare, ratio, watched)
        progress(f"  {name}: step × {ratio:.4f}, wall {run.wall_s:.2f} s, bare {bare.wall_s:.2f} s")
        before = after
    return results


def figures_of(comparisons: Sequence[Comparison]) -> dict[str, Any]:
    """The figures of one tool over all rounds."""

    def ratio(name: str) -> dict[str, float]:
        return summary([getattr(c.run, name) / getattr(c.bare, name) for c in comparisons])

    def extra(name: str, unit: float) -> dict[str, float]:
        return summary([(getattr(c.run, name) - getattr(c.bare, name)) / unit for c in comparisons])

    against = [c.against_watched for c in comparisons if c.against_watched is not None]
    return {
        "step_ratio": summary([c.step_ratio for c in comparisons]),
        **({"against_watched": summary(against)} if against else {}),
        "whole_run_step_ratio": ratio("step_s"),
        "cpu_ratio": ratio("cpu_s"),
        "wall_ratio": ratio("wall_s"),
        "extra_rss_mb": max(
            extra("peak_rss_bytes", MB), extra("rss_bytes", MB), key=lambda found: found["median"]
        ),
        "extra_peak_rss_mb": extra("peak_rss_bytes", MB),
        "extra_end_rss_mb": extra("rss_bytes", MB),
        "extra_first_line_ms": extra("first_line_s", 1e-3),
        "extra_start_ms": extra("torch_ready_s", 1e-3),
        "contention": summary([c.run.contention for c in comparisons]),
        "contention_of_bare": summary([c.bare.contention for c in comparisons]),
        "same_losses": all(c.run.losses == c.bare.losses for c in comparisons),
    }


def targets_of(tools: dict[str, dict[str, Any]]) -> list[Target]:
    """What we promised, against what was measured."""

    def ours(name: str, tool: str = OURS) -> float | None:
        return tools[tool][name]["median"] if name in tools.get(tool, {}) else None

    peers = [figures for name, figures in tools.items() if name not in (*OWN, AGAIN)]
    lightest = min((peer["step_ratio"]["median"] for peer in peers), default=None)
    against = ours("step_ratio") if lightest is not None else None
    return [
        at_most("median step, ratio to bare", ours("step_ratio"), 1.01),
        at_most("median step, against the lightest other tool", against, lightest or 0.0),
        at_most("median step at level detailed", ours("step_ratio", DETAILED), 1.05),
        at_most("median step while watched", ours("step_ratio", WATCHED), 1.01),
        at_most("median step while sinks are dead", ours("step_ratio", DEAD_SINKS), 1.01),
        at_most("the same, against watched without", ours("against_watched", DEAD_SINKS), 1.005),
        at_most("whole-run wall, ratio to bare", ours("wall_ratio"), 1.10),
        at_most("whole-run CPU, ratio to bare", ours("cpu_ratio"), 1.05),
        at_most("extra RSS of the training process, MB", ours("extra_rss_mb"), 15.0),
        at_most("extra start-up, ms", ours("extra_start_ms"), 150.0),
    ]


def overview(tools: dict[str, dict[str, Any]], unavailable: dict[str, str]) -> str:
    def cell(figure: dict[str, float], digits: int) -> str:
        return f"{figure['median']:.{digits}f} ±{figure['spread']:.{digits}f}"

    header = (
        "",
        "step ×",
        "CPU ×",
        "wall ×",
        "RSS + MB",
        "start + ms",
        "same losses",
    )
    rows = [
        (
            name,
            cell(figures["step_ratio"], 3),
            cell(figures["cpu_ratio"], 3),
            cell(figures["wall_ratio"], 3),
            cell(figures["extra_rss_mb"], 1),
            cell(figures["extra_start_ms"], 0),
            "yes" if figures["same_losses"] else "NO",
        )
        for name, figures in tools.items()
    ]
    return "\n".join(
        [table(header, rows)] + [f"{name}: unavailable, {why}" for name, why in unavailable.items()]
    )


def main() -> int:
    parser = argparse.ArgumentParser(description="What does a profiler cost a training run?")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=90)
    names = [name for name in COMMANDS if name != BARE]
    parser.add_argument("--only", nargs="*", default=names, choices=names, metavar="TOOL")
    subjects = list(short_steps.SUBJECTS)
    parser.add_argument("--subjects", nargs="*", default=subjects, choices=subjects)
    parser.add_argument("--turns", type=int, default=40, help="of each subject in a round")
    parser.add_argument("--quick", action="store_true", help="only the subjects, one short round")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.only, arguments.rounds, arguments.turns = [], 1, 12

    compile_package()
    try:
        tools, figures = _compare_tools(arguments.only, arguments.rounds, arguments.steps)
        short = short_steps.measure_all(arguments.subjects, arguments.rounds, arguments.turns)
    except UnavailableError as reason:
        progress(f"the program does not run: {reason}")
        return 1
    if arguments.only:
        print(overview(tools, figures["unavailable"]))
    print(short_steps.overview(short))
    targets = [*(targets_of(tools) if arguments.only else ()), *short_steps.targets_of(short)]
    print(Result("overhead", {**figures, "short_steps": short}, targets).line())
    return 1 if OURS in figures.get("unavailable", {}) else 0


def _compare_tools(
    names: Sequence[str], rounds: int, steps: int
) -> tuple[dict[str, dict[str, Any]], dict[str, Any]]:
    """The figures of each tool, and those with what is known of all of them."""
    if not names:
        return {}, {}
    measured: dict[str, list[Comparison]] = {name: [] for name in names}
    unavailable: dict[str, str] = {}
    measure(BARE, steps)  # brings the files into memory
    for number in range(rounds):
        progress(f"round {number + 1} of {rounds}")
        left = [name for name in measured if name not in unavailable]
        for name, result in one_round(number, left, steps).items():
            if isinstance(result, Comparison):
                measured[name].append(result)
            else:
                unavailable[name] = str(result)
    tools = {name: figures_of(found) for name, found in measured.items() if name not in unavailable}
    bare = [comparison.bare for found in measured.values() for comparison in found]
    return tools, {
        "bare_step_ms": statistics.median(run.step_s for run in bare) * 1e3,
        "bare_wall_s": statistics.median(run.wall_s for run in bare),
        "tools": tools,
        "unavailable": unavailable,
    }


if __name__ == "__main__":
    sys.exit(main())
