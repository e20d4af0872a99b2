"""Whom `stepscope capture` asks, and what it says when there is nobody to ask."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stepscope.cli import main
from stepscope.errors import RunNotFoundError, StepscopeError
from stepscope.session import capture_target
from stepscope.session.capture_target import find_target, is_alive
from stepscope.store.captures import say_run
from stepscope.store.rundir import write_meta

HERE = os.uname().nodename
NO_PROCESS = 1 << 30


@pytest.fixture
def status(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A status folder where they are looked for; runs are made in the folder that we are in."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    made = tmp_path / "tmp" / f"stepscope-{os.getpid()}-7"
    made.mkdir(parents=True)
    return made


@pytest.fixture
def sleeper() -> Iterator[int]:
    """A process that has nothing to do with us."""
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    yield process.pid
    process.kill()
    process.communicate()


def make(status: Path, name: str = "a-run", **meta: Any) -> Path:
    run = Path("runs", name).resolve()
    run.mkdir(parents=True)
    fields = {
        "launcher_pid": os.getpid(),
        "status_folder": str(status),
        "host": {"name": HERE},
        "started_unix": 1.0,
        "ended_unix": None,
    }
    write_meta(run, fields | meta)
    say_run(status, run)
    return run


def test_a_run_is_found_by_its_name_its_folder_and_as_the_latest(status: Path) -> None:
    run = make(status)
    for wanted in ("a-run", str(run), "latest"):
        found = find_target(wanted)
        assert (found.run.resolve(), found.status_folder) == (run, status)
        assert found.launcher_pid == os.getpid()


def test_a_run_is_found_by_any_of_its_processes(status: Path, sleeper: int) -> None:
    run = make(status)
    (status / f"{sleeper}.status").touch()
    assert find_target(str(sleeper)).run == run


def test_a_run_is_found_by_its_launcher(status: Path, sleeper: int) -> None:
    launchers = status.rename(status.with_name(f"stepscope-{sleeper}-99"))
    run = make(launchers, launcher_pid=sleeper)
    assert find_target(str(sleeper)).run == run


def test_a_run_whose_name_is_a_number_comes_before_a_process(status: Path) -> None:
    run = make(status, "1")
    assert find_target("1").run.resolve() == run


@pytest.mark.parametrize(
    ("meta", "says"),
    [
        ({"ended_unix": 5.0}, "a-run is over: stepscope report"),
        ({"status_folder": None}, "was not started by stepscope run"),
        ({"launcher_pid": "x"}, "meta.launcher_pid should be a whole number"),
        ({"host": {"name": "far-away"}}, "runs on far-away"),
        ({"launcher_pid": NO_PROCESS}, "goes on no more, or its launcher"),
        ({"status_folder": "/nonexistent/x"}, "has no status folder x in /dev/shm"),
    ],
)
def test_who_cannot_be_asked_is_told_apart(
    status: Path, meta: dict[str, Any], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    make(status, **meta)
    assert main(["capture", "a-run"]) == 2
    assert says in capsys.readouterr().err


def test_processes_that_cannot_be_asked_are_told_apart(
    status: Path, sleeper: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(status)
    with pytest.raises(StepscopeError, match="was not started by stepscope run"):
        find_target(str(sleeper))
    with pytest.raises(RunNotFoundError, match="no run and no process"):
        find_target(str(NO_PROCESS))
    with pytest.raises(RunNotFoundError, match="There is no run nonsense"):
        find_target("nonsense")
    monkeypatch.setattr(capture_target.os, "geteuid", lambda: os.stat("/proc/self").st_uid + 1)  # type: ignore[attr-defined]  # noqa: PTH116
    with pytest.raises(StepscopeError, match="belongs to another user"):
        find_target(str(sleeper))


def test_a_process_that_ended_and_was_not_waited_for_is_over() -> None:
    process = subprocess.Popen([sys.executable, "-c", ""], stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.read()  # it is at its end
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert not is_alive(process.pid)
    process.communicate()
    assert is_alive(os.getpid())


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--steps", "0"], "--steps is to be 1 or more"),
        (["--steps", "x"], "--steps"),
        (["--for", "soon"], "--for 'soon' is no time"),
        (["--for", "2h"], "at most 10 minutes"),
    ],
)
def test_wrong_arguments_are_said_before_anybody_is_asked(
    status: Path, words: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    make(status)
    assert main(["capture", "a-run", *words]) == 2
    assert says in capsys.readouterr().err
    assert not (status / "control").exists()
