"""A run folder from somebody else, with control characters in every text that it holds."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from stepscope.cli import main
from stepscope.model.checkpoint_details import Checkpointing
from stepscope.store.alerts import AlertStore
from stepscope.store.details import write_details
from stepscope.store.rundir import write_meta
from stepscope.store.summary import write_summary
from tests.unit.notify.alerts_by_hand import firing
from tests.unit.report.made_checkpointing import made_plan
from tests.unit.report.made_details import made_details
from tests.unit.report.made_summary import input_bound

ESCAPES = "\x1b]52;c;cm0gLXJm\x07\x1b[2J\x9b31m\r\x08\x00\x7f\u202e\u2066<script>alert(1)</script>"
HIDDEN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
FILES = ("meta.json", "summary.json", "details.json", "alerts.jsonl")


@pytest.fixture(autouse=True)
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two runs, each with everything that a run can have."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "160")
    for name in ("a", "b"):
        _make(tmp_path / "runs" / name)
    return tmp_path / "runs"


def _make(run: Path) -> None:
    run.mkdir(parents=True)
    meta = {
        "name": run.name,
        "command": ["python", "train.py"],
        "cwd": str(run),
        "started_unix": 1_700_000_000.0,
        "ended_unix": 1_700_000_005.0,
        "exit_code": 0,
        "host": {"name": "here", "system": "Linux", "machine": "x86_64", "cpus": 2},
        "git": {"commit": "abc", "dirty": True},
        "python": "3.11",
    }
    write_meta(run, meta)
    summary = input_bound()
    coverage = {**summary.coverage, "notes": ["A note."]}
    write_summary(run, replace(summary, run=meta, coverage=coverage))
    write_details(run, replace(made_details(), checkpointing=Checkpointing(plan=made_plan())))
    store = AlertStore(run.parent, run)
    store.add(firing("x"), ["log alerts.log"])
    store.close()


def spoil(run: Path, *, but: tuple[str, ...] = ()) -> None:
    """Puts escapes behind every text in the run's files, except those of these names."""
    for file in FILES:
        path = run / file
        if path.exists():
            text = path.read_text("utf-8")
            documents = text.splitlines() if path.suffix == ".jsonl" else [text]
            spoiled = [json.dumps(_spoiled(json.loads(one), but)) for one in documents]
            path.write_text("\n".join(spoiled) + "\n", "utf-8")


def _spoiled(value: Any, but: tuple[str, ...], name: str = "") -> Any:
    if isinstance(value, dict):
        return {key: _spoiled(one, but, key) for key, one in value.items()}
    if isinstance(value, list):
        return [_spoiled(one, but, name) for one in value]
    return value + ESCAPES if isinstance(value, str) and name not in but else value


COMMANDS = [
    ["report", "a"],
    ["report", "a", "--json"],
    ["report", "a", "--html"],
    ["runs"],
    ["history"],
    ["history", "--json"],
    ["compare", "a", "b"],
    ["compare", "a", "b", "--json"],
    ["compare", "a", "b", "--markdown", "-"],
    ["alerts", "a"],
    ["alerts", "--all"],
    ["alerts", "a", "--json"],
    ["alerts", "a", "--send"],
    ["memory", "a"],
    ["memory", "a", "--json"],
    ["watch", "a", "--once"],
    ["watch", "a", "--json"],
    ["capture", "a"],
    ["report", f"no{ESCAPES}"],
    ["memory", f"no{ESCAPES}"],
    ["run", f"no{ESCAPES}.py"],
    ["run", "--plan", f"no{ESCAPES}", "x"],
    ["run", "--apply", f"no{ESCAPES}", "x"],
    ["run", "--watch", f"no{ESCAPES}", "x"],
    ["run", "--level", ESCAPES, "x"],
    [f"no{ESCAPES}"],
    ["doctor"],
    ["grafana"],
]


# With these spoiled a file is refused; without, everything in it is shown.
CHECKED = ("kind", "category", "state", "cwd", "recompute")


@pytest.mark.parametrize("but", [(), CHECKED], ids=["refused", "shown"])
@pytest.mark.parametrize("arguments", COMMANDS, ids=ascii)
def test_no_command_sends_foreign_control_characters_to_the_terminal(
    runs: Path, arguments: list[str], but: tuple[str, ...], capfd: pytest.CaptureFixture[str]
) -> None:
    for run in ("a", "b"):
        spoil(runs / run, but=but)
    try:
        main(arguments)
    except SystemExit:
        pass
    printed = capfd.readouterr()
    assert HIDDEN.findall(printed.out + printed.err) == []
    assert printed.out or printed.err


def test_a_report_shows_escapes_as_text(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spoil(runs / "a", but=CHECKED)
    assert main(["report", "a"]) == 0
    assert "stepscope · a\\u001b]52;c;cm0gLXJm\\u0007" in capsys.readouterr().out


def test_a_fault_of_ours_shows_its_traceback_made_visible(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError(ESCAPES)

    monkeypatch.setattr("stepscope.session.runs.list_runs", fail)
    assert main(["runs"]) == 1
    printed = capsys.readouterr().err
    assert printed.startswith("Traceback (most recent call last):\n")
    assert "RuntimeError: \\u001b]52;c;cm0gLXJm\\u0007" in printed
    assert HIDDEN.findall(printed) == []


def test_pages_and_exports_hold_no_foreign_markup(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for run in ("a", "b"):
        spoil(runs / run, but=CHECKED)
    assert main(["report", "a", "--html"]) == 0
    assert main(["memory", "a", "--html", "-o", "memory.html"]) == 0
    assert main(["compare", "a", "b", "--markdown", "c.md", "--junit", "c.xml"]) in (0, 1)
    written = [runs / "a" / "report.html", *map(Path, ("memory.html", "c.md", "c.xml"))]
    for path in written:
        text = path.read_text("utf-8")
        assert "alert(1)" in text or path.suffix == ".xml"
        assert "<script>alert" not in text
        assert HIDDEN.findall(text.replace("\t", "")) == []
