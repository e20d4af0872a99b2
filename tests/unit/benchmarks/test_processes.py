"""What is told about a command that was run under a tool."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from processes import execute


def test_a_command_that_is_not_there_is_unavailable(tmp_path: Path) -> None:
    done = execute([str(tmp_path / "absent")], tmp_path, timeout_s=60.0)
    assert done.problem == "cannot be started: No such file or directory"


def test_a_command_that_fails_gives_its_last_line(tmp_path: Path) -> None:
    command = ["sh", "-c", "echo first >&2; echo last >&2; exit 3"]
    assert execute(command, tmp_path, timeout_s=60.0).problem == "exit code 3: last"


def test_a_command_that_hangs_is_killed_with_its_children(tmp_path: Path) -> None:
    done = execute(["sh", "-c", "sleep 60; true"], tmp_path, timeout_s=0.2)
    assert done.problem == "hangs: killed after 0.2 s"


def test_a_command_does_not_outlive_an_interrupt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[int] = []

    def interrupted(pid: int, _: int) -> None:
        started.append(pid)
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "wait4", interrupted)
    with pytest.raises(KeyboardInterrupt):
        execute(["sleep", "600"], tmp_path, timeout_s=600.0)
    with pytest.raises(ProcessLookupError):
        os.kill(started[0], 0)


def test_a_command_sees_the_environment_that_it_is_given(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "import os, sys; sys.exit(os.environ['WHY'])"]
    assert execute(command, tmp_path, 60.0, {"WHY": "asked"}).problem == "exit code 1: asked"


def test_a_command_that_works_has_no_problem(tmp_path: Path) -> None:
    done = execute(["true"], tmp_path, timeout_s=60.0)
    assert not done.problem
    assert done.ended >= done.began
