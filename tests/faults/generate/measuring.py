"""Runs a program: bare with and without each fault in turns, and under stepscope."""

from __future__ import annotations

import contextlib
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.faults.generate.drawing import Plan
from tests.faults.generate.rendering import Program, render

__all__ = ["ProgramError", "Truth", "measure"]

TIMEOUT_S = 300
# Rounds are added while their gains differ by more than this.
ROUNDS, MOST_ROUNDS, AGREE = 2, 4, 1.05
SCRIPT = "train.py"
SERIES = Path(__file__).with_name("series.py")
_LAST = re.compile(
    r"^(\d+) steps, ([\d.]+) ms a step, ([\d.]+) ms of it in the run queue$", re.MULTILINE
)


class ProgramError(Exception):
    """A program did not run to its end: the generator is at fault, not the tool."""


@dataclass(frozen=True, slots=True)
class Truth:
    """What ablation says of one fault. `spread`: largest gain of a round over the smallest."""

    kind: str
    gain: float
    spread: float
    lines: tuple[int, ...]
    functions: tuple[str, ...]
    anywhere: bool

    @property
    def share(self) -> float:
        return max(0.0, 1 - 1 / self.gain)


@dataclass(frozen=True, slots=True)
class _Time:
    steps: int
    wall_ms: float
    queue_ms: float  # of it, waiting for a CPU


def measure(plan: Plan, folder: Path, *, crowded: bool = False) -> dict[str, Any]:
    """Everything that is judged later, as plain JSON. `folder` keeps the programs."""
    program = render(plan)
    truths, times = _ablate(plan, program, folder)
    with _crowd() if crowded else contextlib.nullcontext():
        steps, summary = _profile(program, folder)
    return {
        "suite": "generated-crowded" if crowded else "generated",
        "program": f"{plan.seed}-{plan.index}",
        "plan": {
            "seed": plan.seed, "index": plan.index, "shape": plan.shape, "family": plan.family,
            "source": plan.source, "layout": plan.layout, "step_ms": round(plan.step_ms, 3),
            "faults": [[f.kind, f.variant, round(f.gain, 3)] for f in plan.faults],
        },
        "truths": [_truth_row(truth) for truth in truths],
        "times_ms": times,
        "steps": steps,
        "summary": summary,
    }  # fmt: skip


def _truth_row(truth: Truth) -> dict[str, Any]:
    row = {name: getattr(truth, name) for name in Truth.__slots__}
    return row | {"share": round(truth.share, 4), "gain": round(truth.gain, 4)}


def _ablate(
    plan: Plan, program: Program, folder: Path
) -> tuple[list[Truth], dict[str, list[list[float]]]]:
    """Run with all faults, then without each of them, and so on in turns."""
    if not plan.faults:
        return [], {}
    texts = [program.text]
    texts += [render(plan, without=[number]).text for number in range(len(plan.faults))]
    folders = [folder / (f"without-{place}" if place else "all") for place in range(len(texts))]
    for text, where in zip(texts, folders, strict=True):
        where.mkdir(parents=True, exist_ok=True)
        (where / SCRIPT).write_text(text)
    taken: list[list[_Time]] = [[] for _ in texts]
    for _ in range(MOST_ROUNDS):
        _run([sys.executable, str(SERIES), *map(str, folders)], folder)
        for times, where in zip(taken, folders, strict=True):
            times.append(_read((where / "output.txt").read_text()))
        if len(taken[0]) >= ROUNDS and all(_spread(g) <= AGREE for g in _gains(plan, taken)):
            break
    truths = [
        Truth(
            fault.kind, statistics.median(gains), round(_spread(gains), 4),
            place.lines, place.functions, place.anywhere,
        )
        for fault, place, gains in zip(
            plan.faults, program.places, _gains(plan, taken), strict=True
        )
    ]  # fmt: skip
    names = ["all", *(f"without {fault.kind}" for fault in plan.faults)]
    in_ms = {
        name: [[round(time.wall_ms, 4), round(time.queue_ms, 4)] for time in times]
        for name, times in zip(names, taken, strict=True)
    }
    return truths, in_ms


def _gains(plan: Plan, taken: list[list[_Time]]) -> list[list[float]]:
    """For each fault, the gain of each round."""
    # Waiting for a CPU is what too many threads cost; elsewhere it is other programs' doing.
    own = any(fault.kind == "oversubscription" for fault in plan.faults)

    def step_ms(time: _Time) -> float:
        return time.wall_ms if own else time.wall_ms - time.queue_ms

    return [
        [step_ms(whole) / step_ms(less) for whole, less in zip(taken[0], times, strict=True)]
        for times in taken[1:]
    ]


def _spread(gains: list[float]) -> float:
    return max(gains) / min(gains)


def _profile(program: Program, folder: Path) -> tuple[int, dict[str, Any]]:
    where = folder / "profiled"
    where.mkdir(parents=True, exist_ok=True)
    (where / SCRIPT).write_text(program.text)
    with tempfile.TemporaryDirectory(prefix="stepscope-generated-") as run:
        command = [sys.executable, "-m", "stepscope", "run", "-o", f"{run}/run", "--quiet", SCRIPT]
        time = _read(_run(command, where))
        summary = json.loads(Path(run, "run", "summary.json").read_text())
    kept = ("steps", "wall_ms", "breakdown", "verdict", "findings", "coverage", "overhead")
    return time.steps, {key: summary[key] for key in kept}


def _run(command: list[str], folder: Path) -> str:
    environment = {
        key: value
        for key, value in os.environ.items()
        if not key.startswith(("STEPSCOPE_", "OMP_", "MKL_"))
    }
    try:
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True,
            timeout=TIMEOUT_S, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise ProgramError(f"still running after {TIMEOUT_S} s") from None
    if done.returncode:
        said = done.stderr.strip().splitlines()[-1:] or ["no message"]
        raise ProgramError(f"exit code {done.returncode}: {said[0]}")
    return done.stdout


def _read(output: str) -> _Time:
    last = _LAST.search(output)
    if last is None:
        raise ProgramError(f"it printed no times: {output[-200:]}")
    return _Time(int(last[1]), float(last[2]), float(last[3]))


@contextlib.contextmanager
def _crowd(count: int = 2) -> Iterator[None]:
    """Other programs that keep CPUs busy."""
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()
