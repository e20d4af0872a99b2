from __future__ import annotations

import sys
from pathlib import Path

import pytest

from stepscope.errors import UsageError
from stepscope.launch.command import resolve_command


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("#!/usr/bin/env python\n")
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg" / "__main__.py").touch()
    (tmp_path / "empty").mkdir()
    (tmp_path / "plain.txt").touch()
    script = tmp_path / "go"
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    return tmp_path


@pytest.mark.parametrize(
    ("words", "label"),
    [
        (["train.py", "--epochs", "3"], "train"),
        (["./train.py"], "train"),
        (["-m", "pkg.train", "-x"], "pkg.train"),
        (["-c", "print()"], "python"),
        (["pkg"], "pkg"),
    ],
)
def test_what_is_python_is_run_by_our_interpreter(words: list[str], label: str) -> None:
    command = resolve_command(words)
    assert command.executable == sys.executable
    assert command.argv == (sys.executable, *words)
    assert command.label == label


@pytest.mark.parametrize(
    ("words", "label"),
    [
        (["sh", "x"], "sh"),
        (["sh", "train.py"], "train"),
        (["sh", "-m", "pkg"], "pkg"),
        (["./go", "x"], "go"),
    ],
)
def test_any_other_command_is_run_as_it_is(words: list[str], label: str) -> None:
    command = resolve_command(words)
    assert command.argv == tuple(words)
    assert Path(command.executable).name == Path(words[0]).name
    assert command.label == label


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([], "nothing to run"),
        ([""], "nothing to run"),
        (["  "], "nothing to run"),
        (["trian.py"], r"no script trian\.py: did you mean train\.py\?"),
        (["nowhere/train.py"], "no folder nowhere"),
        (["completely-other.py"], r"no script completely-other\.py in /"),
        (["no-such-command"], "no command no-such-command"),
        (["./plain.txt"], "not executable"),
        (["plain.txt"], "neither a .py file nor executable"),
        (["empty"], "folder without a __main__"),
        (["-m"], "needs a module"),
        (["-c"], "needs code"),
        (["--epochs", "3"], "no option --epochs"),
    ],
)
def test_what_cannot_be_run_is_refused_with_what_to_do(words: list[str], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        resolve_command(words)


def test_a_folder_that_bears_the_name_of_a_command_is_not_in_its_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "env").mkdir()
    monkeypatch.chdir(tmp_path)

    assert resolve_command(["env", "true"]).argv == ("env", "true")
