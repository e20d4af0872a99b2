"""What was profiled from inside, kept as a run; and programs that do it below `stepscope run`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from textwrap import dedent
from typing import Any

import jsonschema
import pytest

from tests.integration.inside import SOURCE, environment, run_program, told_by

SCHEMA = SOURCE / "stepscope" / "store" / "summary.schema.json"
PROFILED = """
profiler = PerformanceProfiler()
for _ in range(3):
    with profiler.profile("load"):
        time.sleep(0.01)
with profiler.profile("train"):
    burn(0.05)
"""


def stepscope(*words: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "stepscope", *map(str, words)]
    return subprocess.run(
        command, env=environment(), cwd=cwd, capture_output=True, text=True, timeout=100,
        check=False,
    )  # fmt: skip


def summary_of(run: Path) -> Any:
    summary = json.loads((run / "summary.json").read_text())
    jsonschema.validate(summary, json.loads(SCHEMA.read_text()))
    return summary


def test_a_saved_folder_is_a_run_like_any_other(tmp_path: Path) -> None:
    told = told_by(PROFILED + "tell(path=str(profiler.save('kept')))", folder=tmp_path)
    run = tmp_path / told["path"]
    assert run.name == "kept"
    summary_of(run)
    done = stepscope("report", run, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.strip()
    as_json = stepscope("report", run, "--json", cwd=tmp_path)
    assert json.loads(as_json.stdout) == summary_of(run)


def test_without_a_path_it_goes_to_the_runs(tmp_path: Path) -> None:
    told = told_by(PROFILED + "tell(path=str(profiler.save(name='mine')))", folder=tmp_path)
    assert (tmp_path / told["path"]).parent == tmp_path / "runs"
    assert "mine" in stepscope("runs", cwd=tmp_path).stdout
    assert stepscope("report", cwd=tmp_path).returncode == 0


def test_saving_again_keeps_what_came_since(tmp_path: Path) -> None:
    told_by(
        PROFILED
        + dedent("""
        profiler.save("first")
        with profiler.profile("more"):
            pass
        profiler.save("second")
        tell()
        """),
        folder=tmp_path,
    )
    names = {
        name: {one["operation"] for one in summary_of(tmp_path / name)["operations"]}
        for name in ("first", "second")
    }
    assert names["first"] == {"load", "train"}
    assert names["second"] == {"load", "train", "more"}


@pytest.mark.parametrize("what", ["a used folder", "an unwritable folder"])
def test_where_it_cannot_be_saved_it_says_so_and_profiling_goes_on(
    tmp_path: Path, what: str
) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "mine.txt").write_text("mine")
    place = folder
    if what == "an unwritable folder":
        if os.geteuid() == 0:
            place = Path("/proc/stepscope/run")  # nobody may write there
        else:
            folder.chmod(0o500)
            place = folder / "run"
    told = told_by(
        PROFILED
        + dedent(f"""
        from stepscope import StepscopeError
        try:
            profiler.save({str(place)!r})
            said = ""
        except StepscopeError as error:
            said = str(error)
        with profiler.profile("load"):
            pass
        tell(said=said, calls=profiler.get_metrics("load").calls)
        """),
        folder=tmp_path,
    )
    folder.chmod(0o700)
    assert str(place) in told["said"]
    assert told["calls"] == 4
    assert (folder / "mine.txt").read_text() == "mine"


def test_the_last_run_is_what_this_process_profiled(tmp_path: Path) -> None:
    told = told_by(
        PROFILED
        + "run = last_run()\n"
        + "tell(path=str(run.path), text=str(run), there=run.path.exists())",
        folder=tmp_path,
    )
    assert told["there"]
    assert told["text"].strip()
    assert not Path(told["path"]).exists(), "it went with the process"
    assert list(tmp_path.iterdir()) == []


def test_without_any_run_the_last_one_is_not_found(tmp_path: Path) -> None:
    done = run_program("last_run()", folder=tmp_path)
    assert done.returncode == 1
    assert "RunNotFoundError" in done.stderr


# ---- below `stepscope run` ----

TRAINING = """
import sys, time
import torch
from stepscope import PerformanceProfiler, last_run
from torch.utils.data import DataLoader, TensorDataset

profiler = PerformanceProfiler()
loader = DataLoader(TensorDataset(torch.randn(640, 8), torch.randn(640, 1)), batch_size=8)
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for inputs, wanted in loader:
    with profiler.profile("step"):
        time.sleep(0.005)
        loss = torch.nn.functional.mse_loss(model(inputs), wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
metrics = profiler.get_metrics("step")
print(metrics.calls, metrics.execution_time, last_run().path)
sys.exit(7)
"""


def test_a_program_that_profiles_itself_can_be_run_too(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TRAINING)
    done = stepscope("run", "-o", tmp_path / "run", tmp_path / "train.py", cwd=tmp_path)
    assert done.returncode == 7, done.stderr
    calls, seconds, path = done.stdout.split()
    assert calls == "80"
    assert float(seconds) >= 80 * 0.005
    assert Path(path) == tmp_path / "run", "there is one run, not two"
    summary = summary_of(tmp_path / "run")
    assert summary["steps"]["count"] == 80
    assert summary["run"]["exit_code"] == 7
    processes = {file.name.split(".")[0] for file in (tmp_path / "run" / "rank-00000").iterdir()}
    assert len(processes) == 1, "one set of files for the process"
    assert stepscope("report", tmp_path / "run", cwd=tmp_path).returncode == 0
