"""One bad run folder costs one line: the other runs are shown, nothing hangs, nothing is followed
to a device."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from stepscope.cli import main
from tests.unit.session.made_folders import make_run

FILES = ("meta.json", "summary.json", "details.json", "rank-00000/1-1.arrows")
FRAMES = "rank-00000/1-1.0000.frames"


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """A good run and a bad one, which a test is going to spoil."""
    for name in ("good", "bad"):
        make_run(tmp_path / "runs" / name, step_ms=5.0)
    return tmp_path / "runs"


def change(path: Path, **values: Any) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


@pytest.mark.parametrize("started", [1e300, float("nan"), float("inf"), 10**400, -1e20, "soon"])
@pytest.mark.parametrize("file", ["meta.json", "summary.json"])
def test_a_start_that_no_calendar_knows_costs_only_its_own_run(
    runs: Path, started: Any, file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = runs / "bad" / file
    if file == "meta.json":
        change(path, started_unix=started)
    else:
        change(path, run={"name": "bad", "started_unix": started})

    assert main(["runs", str(runs)]) == 0
    assert "good" in capsys.readouterr().out
    assert main(["history", str(runs)]) == 0
    assert main(["report", str(runs / "bad")]) == 2
    said = capsys.readouterr().err
    assert "Traceback" not in said
    assert file in said


@pytest.mark.parametrize("file", [*FILES, FRAMES])
@pytest.mark.parametrize("what", ["pipe", "device", "folder"])
def test_a_file_that_is_none_is_not_read(runs: Path, file: str, what: str) -> None:
    path = runs / "bad" / file
    path.parent.mkdir(exist_ok=True)
    path.unlink(missing_ok=True)
    if what == "pipe":
        os.mkfifo(path)
    elif what == "device":
        path.symlink_to("/dev/zero")
    else:
        path.mkdir()

    assert main(["runs", str(runs)]) == 0
    assert main(["history", str(runs)]) == 0
    assert main(["report", str(runs / "good")]) == 0
    refuses = 0 if file == "details.json" else 2
    assert main(["report", str(runs / "bad")]) == refuses
    assert main(["memory", str(runs / "bad")]) == 2


@pytest.mark.parametrize(
    ("meta", "says"),
    [
        ({"losses": {"dropped_events": "many"}}, "meta.losses.dropped_events should be a whole"),
        ({"losses": 3}, "meta.losses should be an object"),
        ({"status_folder": "/tmp/a\0b", "ended_unix": None}, "meta.status_folder is not a path"),
        ({"cwd": "\ud800"}, "meta.cwd is not a path"),
        ({"exit_code": 2**70}, "meta.exit_code is outside of"),
        ({"command": "rm -rf"}, "meta.command should be a list"),
    ],
)
def test_a_meta_with_odd_values_is_refused_in_one_line(
    runs: Path, meta: dict[str, Any], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (runs / "bad" / "summary.json").unlink()
    change(runs / "bad" / "meta.json", **meta)
    assert main(["report", str(runs / "bad")]) == 2
    said = capsys.readouterr().err.splitlines()
    assert says in said[-1]


def test_history_names_the_folders_that_it_skips(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(runs / "bad", runs / "worse")
    change(runs / "bad" / "summary.json", steps={"count": "many"})
    (runs / "worse" / "summary.json").write_text("{")
    assert main(["history", str(runs)]) == 0
    said = capsys.readouterr().err
    assert "2 folders were skipped: " in said
    assert "summary.steps.count should be a whole number" in said
