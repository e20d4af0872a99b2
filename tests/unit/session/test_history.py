from __future__ import annotations

import json
from pathlib import Path

import pytest

from stepscope.cli import main
from stepscope.errors import UsageError
from stepscope.session.history import HistoryOptions, read_history
from tests.unit.session.made_folders import make_run


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Ten runs of one program, slower from the seventh on, and one of another."""
    for place in range(10):
        step_ms = (10.0 if place < 6 else 12.0) * (1.003 if place % 2 else 0.998)
        make_run(tmp_path / f"run-{place}", step_ms, place)
    make_run(tmp_path / "other", 50.0, 20, command=["/bin/python3", "other.py"])
    return tmp_path


def test_commands_do_not_mix_and_the_newest_comes_last(runs: Path) -> None:
    first, last = read_history(HistoryOptions(runs))

    assert (first.label, len(first.runs)) == ("train.py", 10)
    assert (last.label, len(last.runs)) == ("other.py", 1)
    assert [first.runs[change.place].name for change in first.changes] == ["run-6"]


def test_a_pattern_of_names_makes_one_series(runs: Path) -> None:
    (series,) = read_history(HistoryOptions(runs, name="*"))

    assert (series.label, len(series.runs)) == ("*", 11)


@pytest.mark.parametrize(
    ("metric", "expected"), [("throughput", 20.0), ("memory", 1.2e9), ("loop", 50.0)]
)
def test_other_metrics(runs: Path, metric: str, expected: float) -> None:
    (series,) = read_history(HistoryOptions(runs, metric, name="other"))

    assert series.runs[0].value == pytest.approx(expected)


def test_the_change_is_told_in_words(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["history", str(runs)]) == 0
    said = capsys.readouterr().out
    assert "slower since run-6" in said
    assert "(+20.0 %)" in said
    assert "other.py" in said


def test_json_names_the_run_of_a_change(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["history", str(runs), "--json", "--name", "run-*"]) == 0
    (series,) = json.loads(capsys.readouterr().out)
    assert [change["run"] for change in series["changes"]] == ["run-6"]


def test_runs_without_the_figure_are_left_out_and_counted(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (runs / "run-3" / "summary.json").unlink()
    (runs / "run-4" / "summary.json").write_text("{")

    assert main(["history", str(runs), "--name", "run-*"]) == 0
    said = capsys.readouterr().err
    assert "1 folder was skipped: run-4: " in said
    assert "1 of 9 runs have no figure for step: left out." in said


def test_a_metric_that_does_not_exist_is_refused_with_those_that_do(runs: Path) -> None:
    with pytest.raises(UsageError, match="choose among fast, loop, step"):
        read_history(HistoryOptions(runs, "speed"))


def test_a_folder_without_runs_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["history", str(tmp_path)]) == 2
    assert "There is no finished run" in capsys.readouterr().err
