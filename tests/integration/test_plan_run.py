"""`stepscope plan` and `run --plan` on an unmodified program."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from stepscope.model.checkpoint_plan import CheckpointPlan, Segment
from stepscope.record.core import core
from stepscope.store.details import read_details
from stepscope.store.plan_file import PLAN_FILE, read_plan_report, write_plan
from tests.integration.joined import SCRIPTS

pytestmark = pytest.mark.skipif(
    core.TensorHeap is None, reason="this core cannot see tensors: it is not the native one"
)
PROGRAM = str(SCRIPTS / "plans" / "blocks.py")
NEEDED = ("blocks.0", "blocks.1", "blocks.2", "blocks.3", "blocks.4")


def stepscope(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "stepscope", *words],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_a_plan_is_found_in_an_unmodified_program_which_ends_then(tmp_path: Path) -> None:
    output = tmp_path / "written.txt"
    words = ("--save", "30%", "-o", "run", PROGRAM, str(output), "own")

    done = stepscope(tmp_path, "plan", *words)

    report = read_plan_report(tmp_path / "run")
    assert done.returncode == 0, done.stderr
    assert report is not None
    assert report.present is not None
    assert report.measured.peak_bytes <= 0.7 * report.baseline.peak_bytes
    assert report.measured.peak_bytes == pytest.approx(report.predicted.peak_bytes, rel=0.02)
    assert report.baseline.peak_bytes > report.present.peak_bytes > report.measured.peak_bytes
    assert "the peak falls from" in done.stderr
    assert "stepscope run --plan" in done.stderr
    assert not output.exists()  # the program did not get to its end
    details = read_details(tmp_path / "run")
    assert details is not None
    assert details.checkpointing is not None
    assert details.checkpointing.plan == report


def test_a_budget_that_nothing_fits_ends_with_the_smallest_peak(tmp_path: Path) -> None:
    done = stepscope(tmp_path, "plan", "--memory", "10kB", PROGRAM, str(tmp_path / "written.txt"))

    assert done.returncode == 2
    assert "the smallest peak that recomputing can reach is" in done.stderr


def test_a_wrong_budget_is_said_before_the_program_starts(tmp_path: Path) -> None:
    done = stepscope(tmp_path, "plan", "--memory", "much", PROGRAM, str(tmp_path / "written.txt"))

    assert done.returncode == 2
    assert "'much' is no amount of memory" in done.stderr
    assert not (tmp_path / "runs").exists()


def test_with_a_plan_a_program_computes_the_same_to_the_bit(tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    write_plan(plan, CheckpointPlan(tuple(Segment(name) for name in NEEDED)))
    results = []
    for more in ((), ("--plan", str(plan))):
        output = tmp_path / f"written{len(more)}.txt"
        done = stepscope(tmp_path, "run", "-o", f"run{len(more)}", *more, PROGRAM, str(output))
        assert done.returncode == 0, done.stderr
        results.append(output.read_text())

    assert results[0] == results[1]
    details = read_details(tmp_path / "run2")
    assert details is not None
    assert details.checkpointing is not None
    assert {one.layer for one in details.checkpointing.layers} == set(NEEDED)
    assert not (tmp_path / "run2" / PLAN_FILE).exists()


def test_a_plan_for_another_model_is_told_and_the_program_runs(tmp_path: Path) -> None:
    plan, output = tmp_path / "plan.json", tmp_path / "written.txt"
    write_plan(plan, CheckpointPlan((Segment("encoder.0"),)))

    done = stepscope(tmp_path, "run", "-o", "run", "--plan", str(plan), PROGRAM, str(output))

    assert done.returncode == 0
    assert output.exists()
    assert "is not applied: No module of the model is called 'encoder.0'" in done.stderr


def test_a_plan_that_cannot_be_read_ends_before_the_program_starts(tmp_path: Path) -> None:
    plan, output = tmp_path / "plan.json", tmp_path / "written.txt"
    plan.write_text("{")

    done = stepscope(tmp_path, "run", "--plan", str(plan), PROGRAM, str(output))

    assert done.returncode == 2
    assert "is not the JSON that stepscope wrote" in done.stderr
    assert not output.exists()
