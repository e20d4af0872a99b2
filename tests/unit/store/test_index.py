from __future__ import annotations

import contextlib
import os
import sqlite3
from pathlib import Path

import pytest

from stepscope.model.finding import Finding
from stepscope.model.summary import Summary
from stepscope.store.index import add_run, list_runs
from stepscope.store.rundir import write_meta
from stepscope.store.summary import write_summary


def make(folder: Path, started: float = 1.0) -> Path:
    folder.mkdir(parents=True)
    write_meta(folder, {"name": folder.name, "started_unix": started, "command": ["a", "b"]})
    return folder


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    (tmp_path / "runs").mkdir()
    return tmp_path / "runs"


def names(runs: Path) -> list[str]:
    return [entry.name for entry in list_runs(runs)]


def test_runs_are_listed_newest_first_also_those_elsewhere(runs: Path, tmp_path: Path) -> None:
    add_run(runs, make(runs / "old", 1.0))
    add_run(runs, make(tmp_path / "elsewhere", 3.0))
    add_run(runs, make(runs / "new", 2.0))
    assert names(runs) == ["elsewhere", "new", "old"]


def test_a_run_that_was_never_added_is_found_by_its_folder(runs: Path) -> None:
    make(runs / "killed")
    assert names(runs) == ["killed"]


def test_a_folder_of_another_tool_is_left_as_it_is(runs: Path, tmp_path: Path) -> None:
    (runs / "Nov18_host").mkdir()
    (runs / "Nov18_host" / "events.out.tfevents.1").touch()
    add_run(runs, make(tmp_path / "elsewhere"))
    assert [path.name for path in runs.iterdir()] == ["Nov18_host"]
    add_run(runs, make(runs / "mine"))
    assert not (runs / "index.sqlite").exists()
    assert names(runs) == ["mine"]


def test_an_index_that_is_there_is_kept_whatever_else_comes_into_the_folder(
    runs: Path, tmp_path: Path
) -> None:
    add_run(runs, make(runs / "mine", 1.0))
    (runs / "Nov18_host").mkdir()
    add_run(runs, make(tmp_path / "elsewhere", 2.0))
    assert names(runs) == ["elsewhere", "mine"]


def test_a_run_that_was_deleted_is_gone(runs: Path, tmp_path: Path) -> None:
    folder = make(tmp_path / "elsewhere")
    add_run(runs, folder)
    (folder / "meta.json").unlink()
    assert names(runs) == []


def test_an_entry_says_what_the_folder_says(runs: Path) -> None:
    run = make(runs / "r")
    write_meta(
        run, {"started_unix": 1.0, "ended_unix": 3.0, "exit_code": -9, "command": ["x", "y"]}
    )
    finding = Finding("input-cpu", "input-bound", 0.6, 0.9, 0.8)
    write_summary(run, Summary(run={}, findings=(finding,)))
    (entry,) = list_runs(runs)
    assert (entry.exit_code, entry.ended_unix, entry.command) == (-9, 3.0, "x y")
    assert entry.verdict == "input-bound"


@pytest.mark.parametrize(
    "content", [b"not a database at all" * 99, b"SQLite format 3\0" + b"\xff" * 4096]
)
def test_a_corrupt_index_is_built_again(runs: Path, content: bytes) -> None:
    make(runs / "r")
    (runs / "index.sqlite").write_bytes(content)
    assert names(runs) == ["r"]
    add_run(runs, make(runs / "s", 2.0))
    assert names(runs) == ["s", "r"]
    assert (runs / "index.sqlite").read_bytes()[:16] == b"SQLite format 3\0"


def test_an_index_of_another_shape_is_built_again(runs: Path) -> None:
    database = sqlite3.connect(runs / "index.sqlite")
    database.execute("CREATE TABLE runs (something INTEGER)")
    database.close()
    add_run(runs, make(runs / "r"))
    assert names(runs) == ["r"]


def test_an_index_that_cannot_be_written_is_done_without(runs: Path) -> None:
    (runs / "index.sqlite").mkdir()
    add_run(runs, make(runs / "r"))
    assert names(runs) == ["r"]


def test_there_is_no_index_without_a_runs_folder(tmp_path: Path) -> None:
    add_run(tmp_path / "runs", make(tmp_path / "r"))
    assert not (tmp_path / "runs").exists()
    assert list_runs(tmp_path / "runs") == []


def test_an_unreadable_run_is_listed_as_such(runs: Path) -> None:
    run = make(runs / "r")
    (run / "summary.json").write_text("{")
    (entry,) = list_runs(runs)
    assert entry.verdict.startswith("unreadable")


def test_a_run_whose_path_is_no_utf_8_is_listed_under_a_name_that_can_be_shown(runs: Path) -> None:
    run = make(runs / os.fsdecode(b"run-\xff"))
    (run / "meta.json").unlink()
    (run / "host").mkdir()
    add_run(runs, make(runs / "other", 2.0))
    other, entry = list_runs(runs)
    assert (other.name, entry.name) == ("other", "run-\\udcff")
    assert Path(entry.path) == run.resolve()


def test_the_index_knows_a_run_elsewhere_whose_path_is_no_utf_8(runs: Path, tmp_path: Path) -> None:
    run = make(tmp_path / os.fsdecode(b"elsewhere-\xff"))
    add_run(runs, run)
    for _ in range(2):  # what is listed is written again
        assert [entry.path for entry in list_runs(runs)] == [str(run.resolve())]


def test_an_entry_is_text_whatever_the_folder_says(runs: Path) -> None:
    run = make(runs / os.fsdecode(b"run-\xff"))
    half = "\\ud800"
    (run / "meta.json").write_text(f'{{"name": "a{half}", "command": ["b{half}"]}}')
    (run / "summary.json").write_text("{")
    (entry,) = list_runs(runs)
    assert (entry.name, entry.command) == ("a" + half, "b" + half)
    assert "run-\\udcff" in entry.verdict


def test_a_line_of_the_index_without_a_path_is_passed_over(runs: Path) -> None:
    add_run(runs, make(runs / "r"))
    with contextlib.closing(sqlite3.connect(runs / "index.sqlite")) as database:
        database.execute("INSERT INTO runs (name, command, verdict) VALUES ('n', '', '')")
        database.commit()
    assert names(runs) == ["r"]
