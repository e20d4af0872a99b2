"""Run folders that somebody else made: nothing is written through their links."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from stepscope.cli import main
from stepscope.collect.control import open_control
from stepscope.descriptor import open_own
from stepscope.model.capture_request import CaptureRequest
from stepscope.store.alert_files import append_line
from stepscope.store.captures import ask_capture
from stepscope.store.database import INDEX_FILE, open_index
from stepscope.store.files import write_text
from stepscope.store.live_request import request
from stepscope.store.rundir import write_meta
from stepscope.store.status_folders import status_folder_of

CONTENT = "do not touch\n"
NOBODY = 65534
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    made = tmp_path / "victim"
    made.write_text(CONTENT)
    os.utime(made, (5, 5))
    return made


@pytest.fixture
def sleeper() -> Iterator[int]:
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    yield process.pid
    process.kill()
    process.communicate()


def attack(run: Path, status: Path, victim: Path, launcher: int) -> Path:
    """A run folder that seems to go on, with its control page linked to a file of the user."""
    run.mkdir(parents=True)
    status.mkdir(parents=True, exist_ok=True)
    (status / "control").symlink_to(victim)
    write_meta(
        run,
        {
            "launcher_pid": launcher,
            "status_folder": str(status),
            "host": {"name": os.uname().nodename},
            "started_unix": 1.0,
            "ended_unix": None,
        },
    )
    return run


def assert_untouched(victim: Path) -> None:
    assert victim.read_text() == CONTENT
    assert victim.stat().st_mtime == 5


@pytest.mark.parametrize("place", ["elsewhere", "elsewhere/stepscope-{}-1", "run/stepscope-{}-1"])
def test_capture_does_not_write_through_a_linked_control_page(
    place: str, tmp_path: Path, victim: Path, sleeper: int, capsys: pytest.CaptureFixture[str]
) -> None:
    run = attack(tmp_path / "run", tmp_path / place.format(sleeper), victim, sleeper)
    assert main(["capture", str(run)]) == 2
    assert_untouched(victim)
    assert "cannot be asked" in capsys.readouterr().err


def test_a_linked_status_folder_is_not_followed(
    tmp_path: Path, sleeper: int, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "target"
    target.mkdir()
    name = f"stepscope-{sleeper}-1"
    run = tmp_path / "run"
    run.mkdir()
    (run / name).symlink_to(target)
    meta = {"launcher_pid": sleeper, "status_folder": str(run / name)}
    write_meta(run, {**meta, "host": {"name": os.uname().nodename}})
    assert status_folder_of(run, meta) is None
    assert main(["capture", str(run)]) == 2
    assert list(target.iterdir()) == []


@pytest.mark.parametrize("named", ["/etc", "../x", "", "\0", "stepscope-7-\0", "stepscope-8-1", 5])
def test_a_status_folder_that_no_launcher_made_is_none(named: object, tmp_path: Path) -> None:
    (tmp_path / "stepscope-8-1").mkdir()
    assert status_folder_of(tmp_path, {"launcher_pid": 7, "status_folder": named}) is None


def test_a_status_folder_that_others_can_write_to_is_none(tmp_path: Path) -> None:
    folder = tmp_path / "stepscope-7-1"
    folder.mkdir()
    meta = {"launcher_pid": 7, "status_folder": str(folder)}
    assert status_folder_of(tmp_path, meta) == folder
    folder.chmod(0o777)
    assert status_folder_of(tmp_path, meta) is None


@needs_root
def test_root_does_not_ask_for_another_user(
    tmp_path: Path, victim: Path, sleeper: int, capsys: pytest.CaptureFixture[str]
) -> None:
    status = tmp_path / "run" / f"stepscope-{sleeper}-1"
    run = attack(tmp_path / "run", status, victim, sleeper)
    (status / "control").unlink()
    os.chown(status, NOBODY, NOBODY)
    assert main(["capture", str(run)]) == 2
    assert "cannot be asked" in capsys.readouterr().err
    assert list(status.iterdir()) == []


@needs_root
def test_root_does_not_ask_a_process_of_another_user(capsys: pytest.CaptureFixture[str]) -> None:
    process = subprocess.Popen(["sleep", "60"], user=NOBODY)
    try:
        assert main(["capture", str(process.pid)]) == 2
    finally:
        process.kill()
        process.wait()
    assert "belongs to another user" in capsys.readouterr().err


WRITERS: dict[str, tuple[str, Callable[[Path], object]]] = {
    "control": ("control", open_control),
    "capture": ("control", lambda folder: ask_capture(folder, CaptureRequest())),
    "live": ("live.request", lambda folder: request(folder, 100.0)),
    "alerts": ("alerts.jsonl", lambda folder: append_line(folder / "alerts.jsonl", "{}")),
}


@pytest.mark.parametrize("link", [os.symlink, os.link])
@pytest.mark.parametrize("name", WRITERS)
def test_no_writer_follows_a_link(
    name: str, link: Callable[[Path, Path], None], tmp_path: Path, victim: Path
) -> None:
    file, write = WRITERS[name]
    folder = tmp_path / "folder"
    folder.mkdir()
    link(victim, folder / file)
    with pytest.raises(OSError, match=r"levels of symbolic links|not a file of ours"):
        write(folder)
    assert_untouched(victim)


@pytest.mark.parametrize("name", WRITERS)
def test_no_writer_waits_for_a_fifo(name: str, tmp_path: Path) -> None:
    file, write = WRITERS[name]
    os.mkfifo(tmp_path / file)
    with pytest.raises(OSError, match=r"No such device|not a file of ours"):
        write(tmp_path)


@needs_root
def test_a_file_of_another_user_is_not_opened(tmp_path: Path, victim: Path) -> None:
    os.chown(victim, NOBODY, NOBODY)
    with pytest.raises(PermissionError):
        open_own(victim, os.O_RDWR)


def test_a_draft_is_a_new_file(tmp_path: Path, victim: Path) -> None:
    (tmp_path / f".summary.json.{os.getpid()}").symlink_to(victim)
    (tmp_path / "summary.json").symlink_to(victim)
    write_text(tmp_path / "summary.json", "{}")
    assert_untouched(victim)
    assert json.loads((tmp_path / "summary.json").read_text()) == {}
    assert not (tmp_path / "summary.json").is_symlink()


def test_a_linked_index_is_replaced_and_not_written(tmp_path: Path) -> None:
    theirs = sqlite3.connect(tmp_path / "theirs.sqlite")
    theirs.execute("CREATE TABLE kept (a)")
    theirs.commit()
    runs = tmp_path / "runs"
    runs.mkdir()
    (runs / INDEX_FILE).symlink_to(tmp_path / "theirs.sqlite")
    with open_index(runs, ["CREATE TABLE IF NOT EXISTS ours (b)"]) as connection:
        assert connection is not None
    assert theirs.execute("SELECT name FROM sqlite_master").fetchall() == [("kept",)]
    theirs.close()
