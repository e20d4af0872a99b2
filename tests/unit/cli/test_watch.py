from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from stepscope.cli import main
from stepscope.store.live import live_from_dict, write_live
from stepscope.store.rundir import write_meta
from stepscope.store.summary import write_summary
from tests.unit.report.made_live import made_view
from tests.unit.report.made_summary import input_bound


@pytest.fixture
def finished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("FORCE_COLOR", "TTY_COMPATIBLE", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    run = tmp_path / "runs" / "mnist"
    run.mkdir(parents=True)
    write_meta(run, {"name": "mnist", "started_unix": 1.0, "ended_unix": 61.0, "exit_code": 0})
    write_summary(run, input_bound())
    return run


def test_without_a_terminal_a_run_is_shown_once(
    finished: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for arguments in (["watch"], ["watch", "mnist"], ["watch", "--once", str(finished)]):
        assert main(arguments) == 0
        shown = capsys.readouterr().out
        assert "finished after 1 min 00 s" in shown
        assert "Input-bound: computing samples takes 75 %" in shown
        assert "\x1b" not in shown


def test_as_json_it_is_what_live_json_holds(
    finished: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["watch", "--json"]) == 0
    view = live_from_dict(json.loads(capsys.readouterr().out))
    assert view.verdict == input_bound().verdict


def test_a_run_that_goes_on_is_shown_as_it_is_now(
    finished: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_meta(finished, {"name": "mnist", "ended_unix": None})
    write_live(finished, made_view(told_unix=time.time() + 60))
    assert main(["watch"]) == 0
    assert "running 12 min 03 s" in capsys.readouterr().out
    assert (finished / "live.request").exists()


def test_a_run_that_is_not_there_is_told_of_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["watch", "nothing"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_files_that_were_tampered_with_are_told_of_in_one_line(
    finished: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (finished / "summary.json").write_text('{"schema": 1, "steps": "\\u001b[2J"}')
    assert main(["watch"]) == 2
    said = capsys.readouterr().err
    assert said.startswith("stepscope: ")
    assert said.count("\n") == 1
    assert "\x1b" not in said


def test_once_and_json_do_not_go_together(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["watch", "--once", "--json"]) == 2
    assert "not allowed with" in capsys.readouterr().err
