from __future__ import annotations

import json
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from stepscope.errors import FormatError, RunNotFoundError, UsageError
from stepscope.model.trace import Losses
from stepscope.store.convert import Converter
from stepscope.store.status import read_status_pages
from stepscope.store.trace import open_trace
from tests.unit.store.by_hand import NAMES, events, header, names, whole_file

MakeRun = Callable[[dict[str, bytes]], Path]
FIRST = "rank-00000/41-1.0000.frames"


@pytest.fixture
def run(make_run: MakeRun) -> Path:
    """Two ranks, one of them converted in part, and the launcher."""
    content = header() + names(NAMES) + events([1, 2], 0, text=3) + events([3], 50, kind=4)
    run = make_run(
        {
            FIRST: content,
            "rank-00000/41-1.0001.frames": header() + names(NAMES) + events([1], 90),
            "rank-00001/42-1.0000.frames": whole_file(batches=1, rows=2, pid=42, rank=1),
            "host/7-1.0000.frames": header(pid=7, role="launcher")
            + names({1: b"host.cpu"})
            + events([1], 7, kind=2),
        }
    )
    converter = Converter(run)
    converter.convert(lambda base, path: path == run / FIRST)
    converter.close()
    return run


def test_a_trace_has_all_processes(run: Path) -> None:
    trace = open_trace(run)
    assert {(p.pid, p.rank, p.role) for p in trace.processes} == {
        (41, 0, "program"),
        (42, 1, "program"),
        (7, 0, "launcher"),
    }
    assert trace.meta["name"] == "run"


def test_batches_are_the_arrow_part_and_then_the_frames(run: Path) -> None:
    trace = open_trace(run)
    process = next(process for process in trace.processes if process.pid == 41)
    rows = [row for batch in trace.batches(process) for row in batch.rows()]
    assert [(row.name, row.text, row.time_ns) for row in rows] == [
        ("forward", "why", 0),
        ("backward", "why", 1),
        ("why", "", 50),
        ("forward", "", 90),
    ]
    assert trace.losses == Losses()
    assert not trace.losses


def test_events_are_one_table_that_says_whose_they_are(run: Path) -> None:
    table = open_trace(run).events
    assert table.num_rows == 7
    assert {"name", "text", "host", "rank", "pid", "time_ns"} <= set(table.column_names)
    assert sorted(set(table["pid"].to_pylist())) == [7, 41, 42]


def test_sql_sees_events_and_their_kinds(run: Path) -> None:
    trace = open_trace(run)
    counts = trace.sql(
        "SELECT (SELECT count(*) FROM events) AS events, (SELECT count(*) FROM spans) AS spans,"
        " (SELECT count(*) FROM samples) AS samples, (SELECT count(*) FROM marks) AS marks"
    ).to_pylist()
    assert counts == [{"events": 7, "spans": 5, "samples": 1, "marks": 1}]
    by_name = trace.sql(
        "SELECT name, sum(duration_ns) AS ns FROM spans GROUP BY name ORDER BY name"
    )
    assert by_name.to_pylist() == [{"name": "backward", "ns": 10}, {"name": "forward", "ns": 40}]


@pytest.mark.parametrize("query", ["SELEC 1", "SELECT nothing FROM events"])
def test_a_query_that_gives_no_rows_is_a_usage_error(run: Path, query: str) -> None:
    with pytest.raises(UsageError):
        open_trace(run).sql(query)


def test_a_killed_run_is_read_up_to_its_last_complete_batch(make_run: MakeRun) -> None:
    run = make_run({FIRST: whole_file(batches=3)[:-9]})
    trace = open_trace(run)
    assert trace.events.num_rows == 6
    assert trace.losses.unreadable_bytes > 0
    assert "cut off" in trace.losses.notes[0]


def test_a_run_with_nothing_in_it_is_an_empty_trace(make_run: MakeRun) -> None:
    trace = open_trace(make_run({FIRST: b""}))
    assert trace.processes == ()
    assert trace.events.num_rows == 0
    assert trace.sql("SELECT count(*) AS n FROM events").to_pylist() == [{"n": 0}]


def test_losses_are_those_that_the_launcher_noted(make_run: MakeRun) -> None:
    run = make_run({FIRST: whole_file()})
    (run / "meta.json").write_text(
        '{"schema": 1, "losses": {"dropped_events": 3, "lost_events": 4}}'
    )
    losses = open_trace(run).losses
    assert (losses.dropped_events, losses.lost_events) == (3, 4)


def status_page(pid: int = 41, dropped: int = 5, lost: int = 6) -> bytes:
    return struct.pack("<8s6q64s8x", b"STPSTAT1", pid, 100, dropped, lost, 28, 9, b"forward")


def test_losses_of_a_killed_launcher_come_from_the_status_pages(make_run: MakeRun) -> None:
    run = make_run({FIRST: whole_file()})
    pages = run / "stepscope-40-1"
    pages.mkdir()
    (pages / "41.status").write_bytes(status_page())
    meta = {"schema": 1, "status_folder": str(pages), "launcher_pid": 40}
    (run / "meta.json").write_text(json.dumps(meta))
    losses = open_trace(run).losses
    assert (losses.dropped_events, losses.lost_events) == (5, 6)


def test_status_pages_that_are_none_are_passed_over(tmp_path: Path) -> None:
    (tmp_path / "1.status").write_bytes(b"short")
    (tmp_path / "2.status").write_bytes(b"x" * 128)
    (tmp_path / "3.status").write_bytes(status_page(pid=3))
    (page,) = read_status_pages(tmp_path)
    assert (page.pid, page.recorded, page.last_errno, page.step) == (3, 100, 28, 9)
    assert page.open_span == "forward"
    assert read_status_pages(tmp_path / "gone") == []


def test_a_foreign_segment_is_a_format_error(make_run: MakeRun) -> None:
    with pytest.raises(FormatError, match="not a stepscope segment"):
        open_trace(make_run({FIRST: b"GIF89a.."}))


def test_a_folder_that_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunNotFoundError, match="not a run"):
        open_trace(tmp_path)
    with pytest.raises(RunNotFoundError, match="no run folder"):
        open_trace(tmp_path / "gone")


def test_frames_that_their_writer_let_go_of_leave_a_mark(make_run: MakeRun) -> None:
    """GIVEN a program whose launcher was gone, so that it let go of its oldest frames
    WHEN the run is read THEN it says when these were."""
    run = make_run(
        {
            FIRST: header() + names(NAMES) + events([1], 10),
            "rank-00000/41-1.0003.frames": header() + names(NAMES) + events([1], 90),
            "rank-00000/41-1.0004.frames": header() + names(NAMES) + events([1], 95),
        }
    )
    trace = open_trace(run)
    rows = [row for batch in trace.batches(trace.processes[0]) for row in batch.rows()]
    assert [(row.name, row.time_ns, row.duration_ns) for row in rows] == [
        ("forward", 10, 10),
        ("stepscope.left_out", 10, 80),
        ("forward", 90, 10),
        ("forward", 95, 10),
    ]
