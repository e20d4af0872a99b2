from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from stepscope.errors import FormatError
from stepscope.model.live import RunState
from stepscope.session.finished_view import view_of_finished
from stepscope.store.alert_files import Notice, append_line, notice_line
from stepscope.store.details import write_details
from stepscope.store.rundir import write_meta
from stepscope.store.summary import write_summary
from tests.unit.report.made_details import made_details
from tests.unit.report.made_live import made_alert
from tests.unit.report.made_summary import input_bound

META = {
    "name": "mnist",
    "command": ["python", "train.py"],
    "started_unix": 1000.0,
    "ended_unix": 1100.0,
    "exit_code": 0,
}


@pytest.fixture
def run(tmp_path: Path) -> Path:
    write_meta(tmp_path, dict(META))
    write_summary(tmp_path, input_bound())
    write_details(tmp_path, made_details())
    return tmp_path


def test_a_run_without_a_summary_has_no_such_view(tmp_path: Path) -> None:
    write_meta(tmp_path, {})
    assert view_of_finished(tmp_path) is None


def test_a_finished_run_shows_what_its_report_says(run: Path) -> None:
    view, summary = view_of_finished(run), input_bound()
    assert view is not None
    assert view.state is RunState.FINISHED
    assert view.verdict == summary.verdict
    assert (view.elapsed_s, view.exit_code) == (100.0, 0)
    assert (view.steps, view.steps_per_second) == (summary.steps.count, summary.steps.per_second)
    assert {one.phase: one.share for one in view.phases} == {
        one.phase: one.share for one in summary.breakdown if one.ms
    }
    assert all(one.recent_share is None for one in view.phases)
    assert (view.used.memory_bytes, view.used.memory_limit_bytes) == (1.2e9, 16e9)
    assert {one.name for one in view.history} >= {"step time", "input wait", "CPU", "memory"}


def test_its_alerts_are_there_each_once_as_told_last(run: Path) -> None:
    for alert in (
        made_alert(1),
        made_alert(2, began_unix=5.0),
        made_alert(1, is_firing=False),
        made_alert(3),
    ):
        append_line(run / "alerts.jsonl", notice_line(Notice(alert, (), "")))
    view = view_of_finished(run)
    assert view is not None
    assert [alert.id for alert in view.alerts] == ["run-3", "run-2", "run-1"]
    assert [alert.is_firing for alert in view.alerts] == [True, True, False]


def test_without_details_there_is_no_history(run: Path) -> None:
    (run / "details.json").write_text("{")
    view = view_of_finished(run)
    assert view is not None
    assert view.history == ()
    assert view.steps == 50


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("steps.count", "many"),
        ("steps.per_second", {}),
        ("resources.cpu_count", "four"),
        ("resources.gpus", [3]),
        ("resources.program.cpu_cores", "one"),
        ("breakdown.0.share", []),
        ("wall_ms", None),
        ("findings.0.title", 7),
    ],
)
def test_a_summary_that_was_tampered_with_is_refused_with_a_sentence(
    run: Path, path: str, value: Any
) -> None:
    summary = json.loads((run / "summary.json").read_text())
    at = summary
    *before, last = (int(part) if part.isdigit() else part for part in path.split("."))
    for part in before:
        at = at[part]
    at[last] = value
    (run / "summary.json").write_text(json.dumps(summary))
    write_meta(run, dict(META) | {"ended_unix": None})
    with pytest.raises(FormatError):
        view_of_finished(run)
