from __future__ import annotations

import io
import os
import sys
from pathlib import Path

import pytest

from stepscope import __version__
from stepscope.cli import main
from stepscope.cli.parser import parse
from stepscope.config import Level, PlanWish
from stepscope.session import command
from stepscope.session.command import RunOptions
from stepscope.store.rundir import write_meta


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[RunOptions]:
    """What `stepscope run` would do."""
    seen: list[RunOptions] = []

    def note(options: RunOptions) -> int:
        seen.append(options)
        return 7

    monkeypatch.setattr(command, "profile_command", note)
    return seen


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["train.py", "--quiet", "-o", "x"], RunOptions(("train.py", "--quiet", "-o", "x"))),
        (["-q", "train.py"], RunOptions(("train.py",), quiet=True)),
        (["--json", "-o", "dir", "a"], RunOptions(("a",), output=Path("dir"), json=True)),
        (["--output=dir", "--name=n", "a"], RunOptions(("a",), output=Path("dir"), name="n")),
        (["-odir", "a"], RunOptions(("a",), output=Path("dir"))),
        (["-m", "pkg", "-q"], RunOptions(("-m", "pkg", "-q"))),
        (["-q", "-m", "pkg"], RunOptions(("-m", "pkg"), quiet=True)),
        (["-q", "--", "-x", "--"], RunOptions(("-x", "--"), quiet=True)),
        (["run", "run"], RunOptions(("run", "run"))),
        ([], RunOptions(())),
    ],
)
def test_everything_behind_the_first_word_is_the_programs(
    asked: list[RunOptions], arguments: list[str], expected: RunOptions
) -> None:
    assert main(["run", *arguments]) == 7
    assert asked == [expected]


def test_a_plan_is_asked_for_and_the_rest_is_the_programs(asked: list[RunOptions]) -> None:
    assert main(["plan", "--memory", "4GiB", "-o", "dir", "train.py", "--memory", "x"]) == 7
    assert main(["plan", "--save=40%", "--keep-going", "-m", "pkg"]) == 7

    assert main(["plan", "train.py", "--lr", "1", "--memory", "4GiB"]) == 7
    assert main(["plan", "train.py", "--save=40%"]) == 7

    first, second, third, fourth = asked
    assert third.words == ("train.py", "--lr", "1")
    assert third.settings.plan == PlanWish(memory="4GiB")
    assert (fourth.words, fourth.settings.plan) == (("train.py",), PlanWish(save="40%"))
    assert (first.words, first.output) == (("train.py", "--memory", "x"), Path("dir"))
    assert first.settings.plan == PlanWish(memory="4GiB")
    assert first.settings.level is Level.PRODUCTION  # nothing else looks at the steps
    assert second.words == ("-m", "pkg")
    assert second.settings.plan == PlanWish(save="40%", keep_going=True)


def test_a_run_is_given_a_plan_by_its_whole_path(asked: list[RunOptions], tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text('[[segments]]\nmodule = "blocks.0"')

    main(["run", "--plan", "mine.toml", "train.py"])

    assert asked[0].settings.plan == PlanWish(path=str(tmp_path / "mine.toml"))


def test_the_level_is_taken(asked: list[RunOptions]) -> None:
    main(["run", "--level", "detailed", "x"])
    assert asked[0].settings.level is Level.DETAILED


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["run"], "nothing to run"),
        (["run", ""], "nothing to run"),
        (["run", "missing.py"], "no script missing.py"),
        (["run", "--nope", "x"], "--nope"),
        (["run", "--level", "loud", "x"], "loud"),
        (["run", "--level"], "expected one argument"),
        (["run", "--name", "../x", "true"], "--name"),
        (["plan", "x"], "how much memory"),
        (["plan", "--memory", "1GiB", "--save", "10%", "x"], "how much memory"),
        (["plan", "--memory", "lots", "x"], "no amount of memory"),
        (["plan", "--memory", "1GiB", "missing.py"], "no script missing.py"),
        (["run", "--plan", "missing.json", "x"], "no plan at"),
        (["nonsense"], "nonsense"),
        (["report", "missing"], "no run missing"),
        (["report"], "no run in runs"),
        (["report", "/etc"], "not a run"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(
    capsys: pytest.CaptureFixture[str], arguments: list[str], told: str
) -> None:
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    (line,) = captured.err.splitlines()
    assert line.startswith("stepscope: ")
    assert told in line


def test_nothing_to_do_shows_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert "run a command and tell why it is slow" in capsys.readouterr().err


def test_the_version_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        parse(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"stepscope {__version__}\n"


def test_runs_are_listed(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["runs"]) == 0
    assert "There are no runs" in capsys.readouterr().out
    for name, started, ended in (("first", 1.0, 2.5), ("second", 2.0, None)):
        (tmp_path / "runs" / name).mkdir(parents=True)
        meta = {"started_unix": started, "ended_unix": ended, "exit_code": 0 if ended else None}
        write_meta(tmp_path / "runs" / name, meta)
    assert main(["runs"]) == 0
    heading, second, first = capsys.readouterr().out.splitlines()
    assert heading.split()[:3] == ["RUN", "STARTED", "TOOK"]
    assert first.startswith("first ")
    assert "1.5 s" in first
    assert "running or killed" in second


def test_runs_whose_paths_are_no_utf_8_are_listed_in_columns(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    for name in (b"run-\xff", b"run-\xfe\xfd"):
        folder = tmp_path / "runs" / os.fsdecode(name)
        folder.mkdir(parents=True)
        write_meta(folder, {"started_unix": float(len(name))})
    assert main(["runs"]) == 0
    heading, second, first = capsys.readouterr().out.splitlines()
    assert second.startswith(r"run-\udcfe\udcfd  ")
    assert first.startswith(r"run-\udcff        ")
    assert heading.index("STARTED") == len(r"run-\udcfe\udcfd  ")


@pytest.mark.parametrize("errors", ["strict", "surrogateescape"])
def test_bytes_of_a_path_that_are_no_text_are_spelled_out(
    monkeypatch: pytest.MonkeyPatch, errors: str
) -> None:
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, "utf-8", errors))
    assert main(["runs", os.fsdecode(b"none-\xff")]) == 0
    sys.stdout.flush()
    assert written.getvalue().startswith(rb"There are no runs in none-\udcff.")


def test_doctor_says_which_core_is_active_and_why(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor"]) == 0
    said = capsys.readouterr().out
    (line,) = [line for line in said.splitlines() if " core " in line]
    assert "native: " in line or "python: " in line
    for topic in ("torch", "pyarrow", "GPU", "/proc", "run folder"):
        assert topic in said
