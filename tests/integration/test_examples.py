"""The examples are what they say they are: real programs, seen by a real `stepscope run`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"

pytestmark = [pytest.mark.slow, pytest.mark.timed]


def summary_of(folder: Path, *command: str) -> dict[str, Any]:
    """Run an example under stepscope and read its summary."""
    run = [sys.executable, "-m", "stepscope", "run", "-o", str(folder / "run"), *command]
    # Threads slow each other down on a busy machine, and shift the shares.
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        run, capture_output=True, text=True, check=False, env=environment, cwd=folder
    )
    assert done.returncode == 0, done.stderr
    summary: dict[str, Any] = json.loads((folder / "run" / "summary.json").read_text())
    return summary


def shares(summary: dict[str, Any]) -> dict[str, float]:
    return {entry["phase"]: entry["share"] for entry in summary["breakdown"]}


def test_slow_input_waits_for_its_input_most_of_the_time(tmp_path: Path) -> None:
    # WHEN 5 batches in each of 3 epochs
    script = str(EXAMPLES / "slow_input.py")
    summary = summary_of(tmp_path, script, "--images", "160", "--epochs", "3")

    # THEN
    assert shares(summary)["input wait"] > 0.5
    assert summary["verdict"]["kind"] == "input-cpu"
    assert summary["verdict"]["location"]["file"] == script


def test_healthy_is_compute_bound(tmp_path: Path) -> None:
    summary = summary_of(tmp_path, str(EXAMPLES / "healthy.py"), "--steps", "30")
    share = shares(summary)
    assert share["forward"] + share["backward"] + share["optimizer"] > 0.8
    assert summary["verdict"]["kind"] == "compute"


def test_mixed_precision_tells_what_each_epoch_was_computed_in(tmp_path: Path) -> None:
    script = EXAMPLES / "mixed_precision.py"
    done = subprocess.run(
        [sys.executable, "-W", "error", script, "--epochs", "2", "--samples", "64"],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert [line.split(":")[0] for line in lines] == ["epoch 0", "epoch 1"]
    assert all(" in bfloat16, " in line or " in float16, " in line for line in lines)
