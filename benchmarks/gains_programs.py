"""Runs the programs of the benchmark of gains: bare, tuned, and under `stepscope tune` itself."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gains_cases import FOLDER, SCRIPTS, Script
from processes import execute
from stepscope.store.details import read_details

__all__ = ["Failed", "Peak", "Tuned", "losses", "null_claims", "peak", "tune", "wall_s"]

RUN_TIMEOUT_S = 300.0
NOTHING = "nothing"  # the change that changes nothing: what is claimed for it is a false claim
_STEPSCOPE = (sys.executable, "-m", "stepscope")


class Failed(Exception):  # noqa: N818 - a result of the benchmark, with the reason
    """A program did not run to its end; the text says why."""


@dataclass(frozen=True, slots=True)
class Tuned:
    """What `stepscope tune` says. config: stepscope.toml; None: nothing was kept."""

    config: Path | None
    kept: tuple[str, ...]
    trials: tuple[dict[str, Any], ...]
    notes: tuple[str, ...] = ()  # time that was used up, noise

    @classmethod
    def of(cls, document: Mapping[str, Any], config: Path) -> Tuned:
        kept = tuple(document["kept"])
        config_made = config if kept else None
        return cls(config_made, kept, tuple(document["trials"]), tuple(document.get("notes", ())))

    def record(self) -> dict[str, Any]:
        return {"kept": list(self.kept), "trials": list(self.trials), "notes": list(self.notes)}

    @property
    def predictions(self) -> list[dict[str, Any]]:
        """Of the changes that were kept: the speed-up that was predicted, and the measured one."""
        return [
            {
                "change": trial["change"]["name"],
                "predicted": trial["predicted"],
                "measured": trial["measured"]["speedup"],
            }
            for trial in self.trials
            if trial["kept"] and trial["predicted"] and trial["measured"]
        ]


@dataclass(frozen=True, slots=True)
class Peak:
    """Of one run: the tensors' peak, and the loop's wall clock."""

    peak_bytes: int
    wall_s: float


def wall_s(script: Script, config: Path | None = None) -> float:
    """What the loop took by the script's own clock: bare, or with what a stepscope.toml says."""
    with tempfile.TemporaryDirectory(prefix="stepscope-gains-") as name:
        folder = Path(name)
        command = [sys.executable]
        if config is not None:
            command = [*_run(folder, config), "--level", "production"]
        return _loop_s([*command, str(script.path)], folder, script)


def peak(script: Script, config: Path | None = None) -> Peak:
    """Under `stepscope run --memory`, whose ledger books every tensor."""
    with tempfile.TemporaryDirectory(prefix="stepscope-gains-") as name:
        folder = Path(name)
        command = [*_run(folder, config), "--memory", str(script.path)]
        taken_s = _loop_s(command, folder, script)
        details = read_details(folder / "run")
        if details is None or details.memory is None:
            raise Failed("stepscope run --memory told nothing of memory")
        return Peak(max(device.peak.bytes for device in details.memory.devices), taken_s)


def losses(script: Script) -> list[float]:
    """With the same seeds for every script."""
    with tempfile.TemporaryDirectory(prefix="stepscope-gains-") as name:
        target = Path(name) / "losses.json"
        program = str(FOLDER / "programs" / "losses.py")
        command = [sys.executable, program, str(target), str(script.path)]
        _execute(command, Path(name), script, RUN_TIMEOUT_S)
        found: list[float] = json.loads(target.read_text())
        return found


def tune(script: Script, budget_s: float, folder: Path, options: Sequence[str] = ()) -> Tuned:
    """Its config is in the folder, with the plan that one may name. Failed: it did not come to its
    end; twice its budget, and then some, is what it gets."""
    said, config = folder / "tuned.json", folder / "stepscope.toml"
    command = [*_STEPSCOPE, "tune", "--budget", f"{budget_s:.0f}s", "--json", str(said)]
    command += ["-o", str(config), *options, str(script.path)]
    _execute(command, folder, script, 2 * budget_s + RUN_TIMEOUT_S)
    return Tuned.of(json.loads(said.read_text()), config)


def null_claims(script: Script, budget_s: float, folder: Path) -> list[bool]:
    """For each comparison of the script with itself: was a gain claimed? Failed: there was none."""
    tuned = tune(script, budget_s, folder, ("--only", NOTHING))
    claims = [bool(trial["kept"]) for trial in tuned.trials if trial["measured"]]
    if not claims:
        why = " ".join(tuned.notes) or "; ".join(trial["why"] for trial in tuned.trials)
        raise Failed(f"no comparison came to its end: {why}")
    return claims


def _run(folder: Path, config: Path | None) -> list[str]:
    command = [*_STEPSCOPE, "run", "--quiet", "-o", str(folder / "run")]
    return command if config is None else [*command, "--apply", str(config)]


def _loop_s(command: list[str], folder: Path, script: Script) -> float:
    _execute(command, folder, script, RUN_TIMEOUT_S)
    return float(json.loads((folder / "truth.json").read_text())["wall_s"])


def _execute(command: list[str], folder: Path, script: Script, timeout_s: float) -> None:
    done = execute(command, folder, timeout_s, _environment(script, folder))
    if done.problem:
        raise Failed(done.problem)


def _environment(script: Script, folder: Path) -> dict[str, str]:
    """The corpus is told how strong a fault is; nothing else may reach it from our shell."""
    ours = ("FAULT_O", "FAULT_S", "FAULT_T", "STEPSCOPE_", "OMP_", "MKL_", "PYTHONPATH")
    kept = {key: value for key, value in os.environ.items() if not key.startswith(ours)}
    return kept | {
        "FAULT_TRUTH": str(folder / "truth.json"),
        "FAULT_STRENGTH": str(script.strength),
        "PYTHONPATH": str(SCRIPTS),
    }
