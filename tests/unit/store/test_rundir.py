from __future__ import annotations

import json
from pathlib import Path

import pytest

from stepscope.errors import FormatError, RunNotFoundError, UsageError
from stepscope.model.summary import Summary
from stepscope.store.rundir import create_run, find_run, read_meta, write_meta
from stepscope.store.summary import read_summary, write_summary


def test_a_default_run_is_named_by_time_and_script(tmp_path: Path) -> None:
    run = create_run(tmp_path / "runs", "train me!")
    assert run.path.is_dir()
    assert run.path.name.endswith("-train-me")
    assert (run.name, run.notice) == (run.path.name, "")


def test_two_runs_in_the_same_second_get_folders_of_their_own(tmp_path: Path) -> None:
    first, second = (create_run(tmp_path, "x") for _ in range(2))
    assert first.path != second.path


def test_a_name_that_is_taken_gets_a_suffix_and_a_notice(tmp_path: Path) -> None:
    create_run(tmp_path, "x", name="mine")
    second = create_run(tmp_path, "x", name="mine")
    assert second.path.name == "mine-2"
    assert "mine is taken" in second.notice


@pytest.mark.parametrize("name", ["../up", "a/b", ".hidden", "-x", "a b"])
def test_a_name_that_is_a_path_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match="--name"):
        create_run(tmp_path, "x", name=name)


def test_output_may_be_new_or_empty(tmp_path: Path) -> None:
    assert create_run(tmp_path / "runs", "x", tmp_path / "a" / "b").path == tmp_path / "a" / "b"
    (tmp_path / "empty").mkdir()
    run = create_run(tmp_path / "runs", "x", tmp_path / "empty", name="label")
    assert (run.path, run.name) == (tmp_path / "empty", "label")


def test_output_with_something_in_it_is_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(UsageError, match="not empty"):
        create_run(tmp_path / "runs", "x", tmp_path)


def test_output_with_a_run_in_it_is_refused(tmp_path: Path) -> None:
    write_meta(tmp_path, {})
    with pytest.raises(UsageError, match="already holds a run"):
        create_run(tmp_path / "runs", "x", tmp_path)


def test_a_place_that_cannot_be_written_gives_way_to_a_temporary_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    for run in (
        create_run(tmp_path / "file" / "runs", "x"),
        create_run(tmp_path / "runs", "x", tmp_path / "file"),
        create_run(Path("/proc/runs"), "x"),
    ):
        assert run.path.parent == tmp_path / "temporary"
        assert str(run.path) in run.notice


def test_a_run_is_found_by_path_by_name_and_as_the_latest(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    for name, started in (("b", 1.0), ("a", 2.0)):
        (runs / name).mkdir(parents=True)
        write_meta(runs / name, {"started_unix": started})
    assert find_run(runs, str(runs / "b")) == runs / "b"
    assert find_run(runs, "b") == runs / "b"
    assert find_run(runs) == runs / "a"


def test_a_run_without_meta_is_found(tmp_path: Path) -> None:
    (tmp_path / "killed" / "rank-00000").mkdir(parents=True)
    assert find_run(tmp_path, "killed") == tmp_path / "killed"
    assert read_meta(tmp_path / "killed") == {}


def test_what_is_no_run_is_refused_with_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(RunNotFoundError, match="no run nothing"):
        find_run(tmp_path, "nothing")
    with pytest.raises(RunNotFoundError, match="not a run of stepscope"):
        find_run(tmp_path, str(tmp_path))
    with pytest.raises(RunNotFoundError, match="no run in"):
        find_run(tmp_path)


@pytest.mark.parametrize("content", ["", "{", "[]", "\x00"])
def test_a_meta_that_is_no_json_object_is_a_format_error(tmp_path: Path, content: str) -> None:
    (tmp_path / "meta.json").write_text(content)
    with pytest.raises(FormatError, match=r"meta\.json"):
        read_meta(tmp_path)


def test_a_newer_meta_asks_for_an_upgrade(tmp_path: Path) -> None:
    (tmp_path / "meta.json").write_text('{"schema": 99}')
    with pytest.raises(FormatError, match="upgrade"):
        read_meta(tmp_path)


def test_a_summary_comes_back_as_written(tmp_path: Path) -> None:
    assert read_summary(tmp_path) is None
    summary = Summary(run={"name": "⏱"}, wall_ms=12.5)
    write_summary(tmp_path, summary)
    assert read_summary(tmp_path) == summary
    assert [path.name for path in tmp_path.iterdir()] == ["summary.json"]


def test_a_summary_that_is_not_whole_is_refused_by_its_path(tmp_path: Path) -> None:
    (tmp_path / "summary.json").write_text('{"schema": 1}')
    with pytest.raises(FormatError, match=r"summary\.json cannot be used"):
        read_summary(tmp_path)


@pytest.mark.parametrize("schema", [None, "1", True])
def test_a_summary_without_a_schema_number_is_refused(tmp_path: Path, schema: object) -> None:
    (tmp_path / "summary.json").write_text(json.dumps({"schema": schema}))
    with pytest.raises(FormatError, match="no schema number"):
        read_summary(tmp_path)


def test_a_newer_summary_asks_for_an_upgrade(tmp_path: Path) -> None:
    (tmp_path / "summary.json").write_text('{"schema": 2}')
    with pytest.raises(FormatError, match=r"schema 2.*upgrade"):
        read_summary(tmp_path)


def test_a_write_that_fails_leaves_the_old_summary(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_summary(tmp_path, Summary(run={"name": "old"}))

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(OSError, match="No space"):
        write_summary(tmp_path, Summary(run={"name": "new"}))
    monkeypatch.undo()
    assert read_summary(tmp_path) == Summary(run={"name": "old"})
    assert [path.name for path in tmp_path.iterdir()] == ["summary.json"]
