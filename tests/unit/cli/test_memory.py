from __future__ import annotations

import csv
import io
import json
import pickle
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from stepscope.cli import main
from stepscope.model.details import Details
from stepscope.store.details import write_details
from stepscope.store.rundir import write_meta
from tests.unit.interop.made_snapshot import made_snapshot
from tests.unit.report.made_memory import made_memory

SCHEMA = Path(__file__).parents[3] / "src" / "stepscope" / "store" / "details.schema.json"


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def snapshot(tmp_path: Path) -> str:
    (tmp_path / "snapshot.pickle").write_bytes(pickle.dumps(made_snapshot()))
    return "snapshot.pickle"


def a_run(details: Details | None, name: str = "first") -> Path:
    run = Path("runs") / name
    run.mkdir(parents=True)
    write_meta(run, {"started_unix": 1.0, "ended_unix": 2.0, "exit_code": 0})
    if details is not None:
        write_details(run, details)
    return run


def told(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["memory", *arguments]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("wanted", [[], ["latest"], ["first"], ["runs/first"]])
def test_a_run_is_found_as_report_finds_it(
    wanted: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    a_run(Details(memory=made_memory()))
    assert "Memory leaks: 1.5 MB a step" in told(capsys, *wanted)


def test_a_file_is_read_as_what_it_is(snapshot: str, capsys: pytest.CaptureFixture[str]) -> None:
    said = " ".join(told(capsys, snapshot).split())
    assert "stepscope · snapshot.pickle · cuda snapshot" in said
    assert "Out of memory: 2.1 GB more were refused at /home/me/train.py:8" in said
    assert "The peak on cuda:0 is 38 MB." in said
    assert "expandable_segments" not in said  # 14 of 34 MiB: most of it lies in whole segments
    assert "empty_cache" in said


def test_json_is_what_the_schema_of_memory_says(
    snapshot: str, capsys: pytest.CaptureFixture[str]
) -> None:
    document: dict[str, Any] = json.loads(told(capsys, snapshot, "--json"))
    assert document.pop("schema") == 1
    schema = json.loads(SCHEMA.read_text())
    jsonschema.validate(document, schema | schema["$defs"]["memory"])
    assert document["devices"][0]["device"] == "cuda:0"


def test_a_page_goes_where_it_is_wanted(snapshot: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert told(capsys, snapshot, "--html", "-o", "page.html") == "page.html\n"
    assert Path("page.html").read_text().startswith("<!doctype html>")
    a_run(Details(memory=made_memory()))
    told(capsys, "--html", "-o", "run.html")
    assert "Memory leaks" in Path("run.html").read_text()


@pytest.mark.parametrize("form", ["perfetto", "csv", "parquet"])
def test_exports_go_into_a_file(
    form: str, snapshot: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert told(capsys, snapshot, "--export", form, "-o", "out") == "out\n"
    content = Path("out").read_bytes()
    begins = {"perfetto": b"\x0a", "csv": b"device,at_ms", "parquet": b"PAR1"}
    assert content.startswith(begins[form])
    if form == "csv":
        rows = list(csv.DictReader(io.StringIO(content.decode())))
        assert max(int(row["bytes"]) for row in rows) == 36 * (1 << 20) - 48


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["memory", "missing"], "no run missing"),
        (["memory"], "no run in runs"),
        (["memory", "/etc"], "not a run"),
        (["memory", "/dev/null"], "not a regular file"),
        (["memory", "snapshot.pickle", "--html"], "-o FILE"),
        (["memory", "snapshot.pickle", "--export", "csv"], "-o FILE"),
        (["memory", "snapshot.pickle", "-o", "x"], "--html or --export"),
        (["memory", "snapshot.pickle", "--export", "xml", "-o", "x"], "xml"),
        (["memory", "snapshot.pickle", "--json", "--html", "-o", "x"], "not allowed with"),
        (["memory", "snapshot.pickle", "--html", "-o", "no/such/place"], "cannot be written"),
        (["memory", "text.txt"], "is no memory file"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(
    arguments: list[str], said: str, snapshot: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("text.txt").write_text("hello")
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    (line,) = captured.err.splitlines()
    assert line.startswith("stepscope: ")
    assert said in line


def test_a_run_without_memory_says_how_to_record_it(capsys: pytest.CaptureFixture[str]) -> None:
    a_run(Details())
    assert main(["memory"]) == 2
    assert "stepscope run --memory" in capsys.readouterr().err
    a_run(None, "killed")
    assert main(["memory", "killed"]) == 2
    assert "stepscope run --memory" in capsys.readouterr().err


def test_a_pickle_that_would_run_code_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    Path("evil.pickle").write_bytes(b"\x80\x02cos\nmkdir\nX\x05\x00\x00\x00owned\x85R.")
    assert main(["memory", "evil.pickle"]) == 2
    assert "Nothing of it was run" in capsys.readouterr().err
    assert not Path("owned").exists()
