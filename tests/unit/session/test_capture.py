"""`stepscope capture`, with a launcher that answers as it should, late, or not at all."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from stepscope.collect.control import open_control
from stepscope.errors import StepscopeError
from stepscope.model.capture import Capture
from stepscope.model.capture_request import CaptureRequest
from stepscope.session import capture as asking
from stepscope.session.capture import CaptureOptions, capture
from stepscope.store.captures import write_capture
from stepscope.store.rundir import write_meta
from tests.unit.report.made_capture import made_capture

PATIENCE_S = 60.0


class Launcher:
    """A process that stands for it, and what it would write."""

    def __init__(self, folder: Path) -> None:
        self.process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
        self.run = folder / "a-run"
        self.status = self.run / f"stepscope-{self.process.pid}-1"
        self.status.mkdir(parents=True)
        meta = {
            "launcher_pid": self.process.pid,
            "status_folder": str(self.status),
            "host": {"name": os.uname().nodename},
            "ended_unix": None,
        }
        write_meta(self.run, meta)
        self.request: CaptureRequest | None = None

    def answer(self, found: Capture | None) -> threading.Thread:
        """As soon as somebody asks; None: it is killed instead."""

        def wait() -> None:
            control, pause = open_control(self.status), threading.Event()
            while not control.asked[0]:
                pause.wait(0.01)
            self.request = control.read(1)
            if found is None:
                self.end()
            else:
                write_capture(self.run, replace(found, details=replace(found.details, number=1)))

        thread = threading.Thread(target=wait)
        thread.start()
        return thread

    def end(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def launcher(tmp_path: Path) -> Iterator[Launcher]:
    made = Launcher(tmp_path)
    yield made
    made.end()


def ask(launcher: Launcher, found: Capture | None, *, json: bool = False) -> None:
    answering = launcher.answer(found)
    options = CaptureOptions(str(launcher.run), 7, 30.0, memory=True, json=json)
    try:
        capture(options)
    finally:
        answering.join(PATIENCE_S)


def test_what_was_captured_is_shown_and_where_it_is_kept(
    launcher: Launcher, capsys: pytest.CaptureFixture[str]
) -> None:
    ask(launcher, made_capture())
    shown, said = capsys.readouterr()
    assert "Input-bound: computing samples takes 75 %" in shown
    assert shown.splitlines()[-1] == f"kept in {launcher.run}/captures/1.json"
    assert said == ""
    request = launcher.request
    assert request is not None
    assert (request.steps, request.seconds) == (7, 30.0)
    assert (request.memory, request.operators, request.layers) == (True, False, True)
    assert request.expires_ns > 0


def test_for_programs_it_is_one_line_of_json(
    launcher: Launcher, capsys: pytest.CaptureFixture[str]
) -> None:
    ask(launcher, made_capture(), json=True)
    (line,) = capsys.readouterr().out.splitlines()
    assert json.loads(line)["title"] == made_capture().details.title


def test_a_run_that_ends_meanwhile_is_told(launcher: Launcher) -> None:
    with pytest.raises(StepscopeError, match="a-run ended before the capture did"):
        ask(launcher, None)


def test_nobody_in_the_program_answers(launcher: Launcher) -> None:
    made = made_capture()
    silent = replace(made, details=replace(made.details, ranks=(), notes=("Nobody answered.",)))
    with pytest.raises(StepscopeError, match=r"^Nobody answered\.$"):
        ask(launcher, silent)


def test_a_launcher_that_never_answers_is_not_waited_for_without_end(
    launcher: Launcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asking, "ANSWER_S", 0.0)
    monkeypatch.setattr(asking, "_FOLDED_S", 0.0)
    with pytest.raises(StepscopeError, match="a-run did not answer"):
        capture(CaptureOptions(str(launcher.run), 5, 0.05))


def test_a_status_folder_that_cannot_be_written_is_told(launcher: Launcher) -> None:
    (launcher.status / "control").mkdir()
    with pytest.raises(StepscopeError, match=r"a-run cannot be asked \(Is a directory\)"):
        capture(CaptureOptions(str(launcher.run), 5, 1.0))
