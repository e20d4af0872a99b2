from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from stepscope.launch.git import GitProbe

needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="there is no git here")


def git(folder: Path, *words: str) -> str:
    who = ["-c", "user.name=n", "-c", "user.email=e@x"]
    done = subprocess.run(["git", *who, *words], cwd=folder, check=True, capture_output=True)
    return done.stdout.decode().strip()


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "repository"
    folder.mkdir()
    monkeypatch.chdir(folder)
    git(folder, "init", "-q")
    (folder / "train.py").write_text("1")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "first")
    return folder


@needs_git
def test_the_commit_and_whether_files_were_changed(repository: Path, tmp_path: Path) -> None:
    commit = git(repository, "rev-parse", "HEAD")
    assert GitProbe(repository, tmp_path / "a").result() == {"commit": commit, "dirty": False}
    (repository / "train.py").write_text("2")
    assert GitProbe(repository, tmp_path / "a").result() == {"commit": commit, "dirty": True}


@needs_git
def test_a_git_that_takes_too_long_is_not_waited_for(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = tmp_path / "git"
    slow.write_text("#!/bin/sh\nsleep 20\n")
    slow.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert GitProbe(repository, tmp_path / "a").result() == {}


def test_outside_of_a_repository_there_is_no_answer(tmp_path: Path) -> None:
    assert GitProbe(tmp_path, tmp_path / "a").result() == {}
