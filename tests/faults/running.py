"""Runs a script of the corpus, bare or under stepscope, and reads what both say."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.faults.manifest import Case, Truth

__all__ = ["CorpusError", "Said", "Seen", "observe", "run_bare", "true_shares"]

TIMEOUT_S = 180


class CorpusError(Exception):
    """A script did not run to its end: the corpus is broken, not the tool."""


@dataclass(frozen=True, slots=True)
class Said:
    """truth.json: what the script measured about itself."""

    shares: dict[str, float]
    location: dict[str, str] | None
    wall_s: float
    cpu_s: float
    gc_s: float


@dataclass(frozen=True, slots=True)
class Seen:
    """One case at one strength: what is true, and the findings of stepscope."""

    case: Case
    strength: float
    shares: dict[str, float]
    findings: list[dict[str, Any]]
    unlike: str = ""  # where the script's own account and the manifest disagree


def observe(case: Case, strength: float) -> Seen:
    """Run under stepscope; where the script cannot time its fault, also bare with and without."""
    with tempfile.TemporaryDirectory(prefix="stepscope-fault-") as folder:
        run = Path(folder) / "run"
        command = [sys.executable, "-m", "stepscope", "run", "-o", str(run), "--quiet"]
        command += ["--level", case.level, "--replay", "full"]
        said = _run([*command, str(case.path)], Path(folder), strength)
        summary = json.loads((run / "summary.json").read_text())
    shares = true_shares(case, strength, said)
    return Seen(case, strength, shares, summary["findings"], _unlike(case, said))


def run_bare(case: Case, strength: float, *, off: bool = False) -> Said:
    with tempfile.TemporaryDirectory(prefix="stepscope-fault-") as folder:
        return _run([sys.executable, str(case.path)], Path(folder), strength, off=off)


def true_shares(case: Case, strength: float, said: Said) -> dict[str, float]:
    """For each kind of the case, the share of the loop that its fault costs."""
    if not case.faults:
        return {}
    if case.truth is Truth.SCRIPT:
        return {kind: said.shares.get(kind, 0.0) for kind in case.kinds}
    if case.truth is Truth.GC:
        return {case.kinds[0]: said.gc_s / said.wall_s}
    with_fault = run_bare(case, strength)
    without = run_bare(case, strength, off=True)
    if case.truth is Truth.CPU:
        return {case.kinds[0]: max(0.0, 1 - without.cpu_s / with_fault.cpu_s)}
    return {case.kinds[0]: max(0.0, 1 - without.wall_s / with_fault.wall_s)}


def _run(command: list[str], folder: Path, strength: float, *, off: bool = False) -> Said:
    """`folder` is the working folder too, so that nothing is left behind."""
    target = folder / "truth.json"
    kept = {
        key: value
        for key, value in os.environ.items()
        if not key.startswith(("FAULT_O", "FAULT_S", "FAULT_T", "STEPSCOPE_", "OMP_", "MKL_"))
    }
    told = {"FAULT_TRUTH": str(target), "FAULT_STRENGTH": str(strength)}
    try:
        done = subprocess.run(
            command, cwd=folder, env=kept | told | ({"FAULT_OFF": "1"} if off else {}),
            capture_output=True, text=True, timeout=TIMEOUT_S, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise CorpusError(f"still running after {TIMEOUT_S} s") from None
    if done.returncode or not target.exists():
        last = done.stderr.strip().splitlines()[-1:] or ["no truth.json"]
        raise CorpusError(f"exit code {done.returncode}: {last[0]}")
    truth = json.loads(target.read_text())
    return Said(**{field: truth[field] for field in Said.__slots__})


def _unlike(case: Case, said: Said) -> str:
    """What the script timed must be what the manifest says is wrong with it."""
    if case.truth is Truth.SCRIPT and set(said.shares) != set(case.kinds):
        return f"the script charged {sorted(said.shares)}, the manifest says {list(case.kinds)}"
    return ""
