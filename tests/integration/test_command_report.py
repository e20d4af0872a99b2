"""`stepscope report` on runs of every kind: whole, killed, torn, foreign, newer."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from pathlib import Path

import jsonschema
import pytest

from tests.integration.recording import TEXT

STEPSCOPE = [sys.executable, "-m", "stepscope"]
SCHEMA = Path(__file__).parents[2] / "src" / "stepscope" / "store" / "summary.schema.json"


def call(*words: str | Path, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    command = [*STEPSCOPE, *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, cwd=cwd)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of 60 steps."""
    folder = tmp_path_factory.mktemp("recorded")
    (folder / "program.py").write_text(TEXT + "train(60, 0.01); recorder.close()")
    done = call("run", "--json", "-o", folder / "run", folder / "program.py", cwd=folder)
    (folder / "stderr").write_text(done.stderr)
    return folder / "run"


@pytest.fixture
def run(recorded: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy that may be spoiled."""
    monkeypatch.chdir(tmp_path)
    return Path(shutil.copytree(recorded, tmp_path / "runs" / "run"))


def refused(*words: str | Path) -> str:
    """The one line that is said, with exit code 2."""
    done = call(*words)
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("stepscope: ")
    return line


def test_the_report_is_said_on_stderr_and_json_is_its_last_line(recorded: Path) -> None:
    said = (recorded.parent / "stderr").read_text()
    assert "Input-bound" in said
    last = json.loads(said.splitlines()[-1])
    assert last == json.loads((recorded / "summary.json").read_text())


def test_the_summary_is_what_its_schema_says(recorded: Path) -> None:
    summary = json.loads((recorded / "summary.json").read_text())
    jsonschema.validate(summary, json.loads(SCHEMA.read_text()))
    assert summary["steps"]["count"] == 60
    assert summary["verdict"]["kind"].startswith("input-")
    assert summary["run"]["exit_code"] == 0


def test_a_report_is_given_again_by_path_by_name_and_as_the_latest(run: Path) -> None:
    said = [call("report", which) for which in (run, "run", "latest")] + [call("report")]
    assert {done.returncode for done in said} == {0}
    assert len({done.stdout for done in said}) == 1
    assert "Input-bound" in said[0].stdout
    assert call("report", run, "--json").stdout == (
        json.dumps(json.loads((run / "summary.json").read_text()), ensure_ascii=False) + "\n"
    )


def test_a_run_without_a_summary_is_summarised_from_its_events(run: Path) -> None:
    whole = json.loads((run / "summary.json").read_text())
    (run / "summary.json").unlink()
    done = call("report", run, "--json")
    summary = json.loads(done.stdout)
    assert done.returncode == 0
    assert summary["steps"] == whole["steps"]
    assert summary["breakdown"] == whole["breakdown"]
    assert "goes on or was killed" in done.stderr


def test_a_run_without_meta_is_read_too(run: Path) -> None:
    (run / "summary.json").unlink()
    (run / "meta.json").unlink()
    assert json.loads(call("report", run, "--json").stdout)["steps"]["count"] == 60


def killed(run: Path) -> None:
    (run / "summary.json").unlink()
    meta = json.loads((run / "meta.json").read_text())
    (run / "meta.json").write_text(json.dumps({**meta, "ended_unix": None}))


def test_a_torn_tail_of_a_killed_run_is_normal(run: Path) -> None:
    killed(run)
    (arrows,) = (run / "rank-00000").glob("*.arrows")
    arrows.write_bytes(arrows.read_bytes()[:-300])
    done = call("report", run)
    assert done.returncode == 0
    assert "cut off after its last complete batch" in " ".join(done.stdout.split())


def test_a_torn_segment_of_a_finished_run_is_refused(run: Path) -> None:
    (arrows,) = (run / "rank-00000").glob("*.arrows")
    arrows.write_bytes(arrows.read_bytes()[:-300])
    assert "is torn" in refused("report", run)


@pytest.mark.parametrize("ended", [True, False])
@pytest.mark.parametrize("name", ["1-1.arrows", "1-1.0000.frames"])
def test_a_foreign_segment_is_refused(run: Path, name: str, ended: bool) -> None:
    if not ended:
        killed(run)
    (run / "rank-00000" / name).write_bytes(b"these are not the bytes")
    line = refused("report", run)
    assert "is not a stepscope segment" in line
    assert "move it out" in line


def test_a_summary_of_a_newer_schema_is_refused(run: Path) -> None:
    summary = json.loads((run / "summary.json").read_text())
    (run / "summary.json").write_text(json.dumps({**summary, "schema": 99}))
    assert "upgrade with pip install -U stepscope" in refused("report", run)


@pytest.mark.parametrize("content", ["", "{", "[]", '{"schema": 1}', '{"schema": 1, "run": 3}'])
def test_a_summary_that_is_none_is_refused(run: Path, content: str) -> None:
    (run / "summary.json").write_text(content)
    assert "summary.json" in refused("report", run)


def test_what_is_no_run_is_refused(run: Path, tmp_path: Path) -> None:
    assert "no run nothing" in refused("report", "nothing")
    assert "not a run" in refused("report", tmp_path)
    (tmp_path / "file").touch()
    assert "not a run" in refused("report", tmp_path / "file")
    shutil.rmtree(run)
    assert "no run in runs" in refused("report")


def test_runs_shows_the_verdict(run: Path) -> None:
    done = call("runs")
    assert done.returncode == 0
    assert run.name in done.stdout
    assert "nput-bound" in done.stdout


def test_a_running_run_can_be_looked_at(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(TEXT + "train(100, 0.03); recorder.close()")
    command = [*STEPSCOPE, "run", "--quiet", "-o", str(tmp_path / "run"), str(program)]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL, cwd=tmp_path)
    try:
        assert 1 <= _steps_when_there_are_some(tmp_path / "run") < 100
    finally:
        assert process.wait(30) == 0


def _steps_when_there_are_some(run: Path) -> int:
    for _ in range(50):
        done = call("report", run, "--json")
        steps = json.loads(done.stdout)["steps"]["count"] if done.returncode == 0 else 0
        if steps:
            return int(steps)
        time.sleep(0.1)
    return 0


def test_a_killed_launcher_and_program_leave_a_report(tmp_path: Path) -> None:
    """kill -9 of both, in the middle of a step."""
    program = tmp_path / "program.py"
    program.write_text(
        TEXT + "train(40, 0.01); recorder.flush(); os.kill(os.getppid(), 9); os.kill(pid, 9)"
    )
    command = [*STEPSCOPE, "run", "-o", str(tmp_path / "run"), str(program)]
    process = subprocess.Popen(command, cwd=tmp_path)
    assert process.wait(30) == -9
    done = call("report", tmp_path / "run")
    assert done.returncode == 0
    assert "Input-bound" in done.stdout
    assert "40 steps" in done.stdout
    shutil.rmtree(json.loads((tmp_path / "run" / "meta.json").read_text())["status_folder"])


def test_a_page_is_made_beside_the_summary_and_its_path_printed(run: Path) -> None:
    done = call("report", "run", "--html")
    assert (done.returncode, done.stdout, done.stderr) == (0, "runs/run/report.html\n", "")
    page = (run / "report.html").read_text()
    assert "Input-bound" in page
    assert [path.name for path in run.iterdir() if path.name.startswith(".")] == []


def test_a_page_is_made_of_a_run_that_was_killed(run: Path) -> None:
    (run / "summary.json").unlink()
    done = call("report", run, "--html")
    assert done.returncode == 0
    assert "goes on or was killed" in done.stderr
    assert "Input-bound" in (run / "report.html").read_text()


def test_details_that_cannot_be_used_are_told_of_and_left_out(run: Path) -> None:
    (run / "details.json").write_text('{"schema": 1, "stacks": 5}')
    done = call("report", run, "--html")
    assert done.returncode == 0
    assert "details.stacks should be a list, and is 5" in done.stderr
    assert (run / "report.html").is_file()


def test_without_jinja2_the_extra_is_named(run: Path, tmp_path: Path) -> None:
    missing = 'raise ModuleNotFoundError("No module named \'jinja2\'", name="jinja2")'
    (tmp_path / "jinja2.py").write_text(missing)  # the current folder comes first
    assert "pip install 'stepscope[html]'" in refused("report", run, "--html")


def test_a_run_says_how_to_get_its_page(recorded: Path) -> None:
    said = (recorded.parent / "stderr").read_text()
    assert f"stepscope report --html {recorded}" in said
