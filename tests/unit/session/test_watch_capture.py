from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from stepscope.session.watch_capture import Looks
from stepscope.store.captures import capture_path, write_capture
from stepscope.store.rundir import write_meta
from tests.unit.report.made_capture import made_capture


@pytest.fixture
def run(tmp_path: Path) -> Path:
    made = tmp_path / "mnist"
    made.mkdir()
    status = made / f"stepscope-{os.getpid()}-1"
    status.mkdir()
    write_meta(
        made,
        {
            "name": "mnist",
            "host": {"name": os.uname().nodename},
            "launcher_pid": os.getpid(),
            "status_folder": str(status),
        },
    )
    return made


def test_a_run_that_goes_on_can_be_asked_once_at_a_time(run: Path) -> None:
    looks = Looks(run)
    assert looks.can_ask()
    assert looks.ask("run-7") == "Asked for closer look 1: the next 20 steps."
    (asked_in,) = run.glob("stepscope-*/capture-1.json")
    asked = json.loads(asked_in.read_text())
    assert asked["alert"] == "run-7"
    assert looks.ask() == "Closer look 1 is still under way."
    assert looks.news() == ""


def test_a_run_that_is_over_cannot_be_asked(run: Path) -> None:
    write_meta(run, {"name": "mnist", "ended_unix": 5.0})
    looks = Looks(run)
    assert not looks.can_ask()
    assert looks.ask().startswith("No closer look: mnist is over")
    assert looks.news() == ""


def test_an_answer_that_cannot_be_read_is_told_of_and_one_can_ask_again(run: Path) -> None:
    looks = Looks(run)
    looks.ask()
    answer = run / capture_path(1)
    answer.parent.mkdir()
    answer.write_text("{")
    assert looks.news().startswith("Closer look 1 cannot be read")
    assert looks.ask() == "Asked for closer look 2: the next 20 steps."


def test_what_was_seen_is_told_with_its_place(run: Path) -> None:
    looks = Looks(run)
    looks.ask()
    made = made_capture()
    write_capture(run, replace(made, details=replace(made.details, number=1)))
    assert looks.news() == "Closer look 1 is kept in mnist/captures/1.json"
    assert looks.news() == ""
