from __future__ import annotations

import os
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from stepscope.errors import FormatError, StepscopeError
from stepscope.model.live import RunState
from stepscope.session.view_source import ViewSource
from stepscope.store.live import write_live
from stepscope.store.live_request import is_requested
from stepscope.store.rundir import write_meta
from stepscope.store.summary import write_summary
from tests.unit.report.made_live import NOW_UNIX, made_view
from tests.unit.report.made_summary import input_bound


class Clock:
    def __init__(self) -> None:
        self.now = NOW_UNIX

    def __call__(self) -> float:
        return self.now


def _meta(**others: Any) -> dict[str, Any]:
    return {
        "name": "mnist",
        "started_unix": NOW_UNIX - 5,
        "ended_unix": None,
        "host": {"name": os.uname().nodename},
        "launcher_pid": os.getpid(),
        **others,
    }


@pytest.fixture
def run(tmp_path: Path) -> Path:
    write_meta(tmp_path, _meta())
    (tmp_path / "host").mkdir()
    return tmp_path


def _gone() -> int:
    """The number of a process that has ended."""
    process = subprocess.Popen(["true"])
    process.wait()
    return process.pid


def test_a_run_is_asked_and_its_answer_shown(run: Path) -> None:
    clock = Clock()
    source = ViewSource(run, clock)
    assert source.next().state is RunState.STARTING
    assert is_requested(run, NOW_UNIX)
    write_live(run, made_view(told_unix=NOW_UNIX + 1))
    clock.now += 1
    assert source.next() == made_view(told_unix=NOW_UNIX + 1)


def test_it_goes_on_asking(run: Path) -> None:
    clock = Clock()
    source = ViewSource(run, clock)
    for _ in range(60):
        write_live(run, made_view(told_unix=clock.now))
        source.next()
        clock.now += 1
        assert is_requested(run, clock.now)


def test_an_old_answer_is_none(run: Path) -> None:
    write_live(run, made_view(told_unix=NOW_UNIX - 3600))
    assert ViewSource(run, Clock()).next().state is RunState.STARTING


def test_a_launcher_that_falls_silent_does_not_respond(run: Path) -> None:
    clock = Clock()
    source = ViewSource(run, clock)
    source.next()
    write_live(run, made_view(told_unix=NOW_UNIX + 1))
    clock.now += 20
    assert source.next().state is RunState.NOT_RESPONDING
    write_live(run, made_view(told_unix=NOW_UNIX + 20))
    assert source.next().state is RunState.RUNNING


def test_a_run_whose_report_is_being_made_is_not_taken_for_silent(run: Path) -> None:
    clock = Clock()
    source = ViewSource(run, clock)
    source.next()
    write_live(run, made_view(told_unix=NOW_UNIX + 1, state=RunState.ENDING))
    clock.now += 60
    assert source.next().state is RunState.ENDING


def test_a_run_that_ends_while_it_is_watched_shows_its_report(run: Path) -> None:
    clock = Clock()
    source = ViewSource(run, clock)
    write_live(run, made_view(told_unix=NOW_UNIX))
    assert source.next().state is RunState.RUNNING
    write_summary(run, input_bound())
    write_meta(run, _meta(ended_unix=NOW_UNIX, exit_code=3))
    final = source.next()
    assert (final.state, final.exit_code) == (RunState.FINISHED, 3)
    assert final.verdict == input_bound().verdict
    assert final.told == made_view().told  # the loss stays in sight
    assert source.next() is final


def test_a_live_json_that_is_torn_does_not_hide_a_report(run: Path) -> None:
    write_summary(run, input_bound())
    write_meta(run, _meta(ended_unix=NOW_UNIX, exit_code=0))
    (run / "live.json").write_text("{")
    view = ViewSource(run, Clock()).next()
    assert (view.state, view.told) == (RunState.FINISHED, ())


def test_a_finished_run_is_not_asked_for_anything(run: Path) -> None:
    write_summary(run, input_bound())
    write_meta(run, _meta(ended_unix=NOW_UNIX, exit_code=0))
    assert ViewSource(run, Clock()).next().state is RunState.FINISHED
    assert not (run / "live.request").exists()


def test_a_run_whose_launcher_is_gone_was_killed(run: Path) -> None:
    write_meta(run, _meta(launcher_pid=_gone()))
    view = ViewSource(run, Clock()).next()
    assert view.state is RunState.KILLED
    assert view.steps == 0


def test_who_answers_is_not_gone_whatever_its_number_means_here(run: Path) -> None:
    write_meta(run, _meta(launcher_pid=_gone()))
    source = ViewSource(run, Clock())
    assert source.next().state is RunState.KILLED
    write_live(run, made_view(told_unix=NOW_UNIX))
    assert source.next().state is RunState.RUNNING


@pytest.mark.parametrize("meta", [{"host": "here"}, {"launcher_pid": "x"}, {"launcher_pid": -1}])
def test_a_run_with_a_damaged_meta_is_refused(run: Path, meta: dict[str, Any]) -> None:
    write_meta(run, _meta(**meta))
    with pytest.raises(FormatError, match=f"meta.{next(iter(meta))}"):
        ViewSource(run, Clock()).next()


def test_where_nobody_answers_the_events_are_read(run: Path) -> None:
    clock = Clock()
    source = ViewSource(run, clock)
    source.next()
    clock.now += 5
    view = source.next()
    assert view.state is RunState.RUNNING
    assert view.verdict is None


def test_a_folder_that_cannot_be_written_is_told_of(run: Path) -> None:
    (run / "live.request").mkdir()  # root may write anywhere, but not over a folder
    write_live(run, made_view(told_unix=NOW_UNIX))
    view = ViewSource(run, Clock()).next()
    assert view == replace(made_view(told_unix=NOW_UNIX), notes=view.notes)
    assert "its folder cannot be written (Is a directory)" in view.notes[0]


def test_an_answer_that_is_no_view_is_an_error_with_a_sentence(run: Path) -> None:
    (run / "live.json").write_text('{"schema": 1}')
    with pytest.raises(StepscopeError, match=r"live\.json"):
        ViewSource(run, Clock()).next()
