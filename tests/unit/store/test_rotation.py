from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pytest

from stepscope.analyze.fold import LoopFold
from stepscope.model import names
from stepscope.model.event import Row
from stepscope.store import convert, rotation, thinning
from stepscope.store.arrow import ArrowReader
from stepscope.store.convert import Converter
from stepscope.store.layout import segments
from stepscope.store.left_out import read_left_out
from stepscope.store.trace import open_trace
from tests.unit.store.long_runs import (
    STEP_NS,
    frames_file,
    mark_row,
    rows_of,
    step_rows,
    stream_bytes,
)

MakeRun = Callable[[dict[str, bytes]], Path]
LIMIT = 150_000
FILES, STEPS = 60, 400  # a run, and each of its frames files
EVENTS_A_FILE = 3 * STEPS + 1


@pytest.fixture(autouse=True, scope="module")
def small_files() -> Iterator[None]:
    """Everything a thousandth of its size."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(convert, "_BATCH_ROWS", 300)
        patch.setattr(rotation, "_LEAST_PART_BYTES", 1_000)
        patch.setattr(rotation, "FILE_BYTES", 2_000)
        yield


def write_steps(run: Path, number: int) -> None:
    """One frames file. It names a stack before its first step."""
    first = number * STEPS
    frame = mark_row(first, names.STACK_FRAME, number, f"0\t{number}\tf\ttrain.py")
    rows = [row for step in range(first, first + STEPS) for row in step_rows(step)]
    path = run / "rank-00000" / f"41-1.{number:04d}.frames"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(frames_file([frame, *rows]))


def record(run: Path, files: int, limit: int) -> int:
    """Recorded and converted, file by file; gives the most that the streams ever took."""
    converter = Converter(run, limit)
    most = 0
    for number in range(files):
        write_steps(run, number)
        converter.convert(lambda base, path: True)
        most = max(most, stream_bytes(run))
    converter.close()
    assert converter.problems == []
    return most


class Long(NamedTuple):
    run: Path
    most_bytes: int
    rows: list[Row]

    def of(self, name: str) -> list[Row]:
        return [row for row in self.rows if row.name == name]


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory) -> Long:
    run = tmp_path_factory.mktemp("long")
    (run / "meta.json").write_text("{}")
    return Long(run, record(run, FILES, LIMIT), list(rows_of(run)))


def test_a_run_that_goes_on_and_on_stays_within_its_limit(long: Long) -> None:
    assert LIMIT / 4 < long.most_bytes <= LIMIT
    assert len(list(long.run.rglob("*.arrows"))) < 100
    assert len(segments(long.run)) == 1


def test_the_first_and_the_newest_steps_stay_whole(long: Long) -> None:
    steps = [row.arg for row in long.of(names.FORWARD)]
    assert steps == sorted(set(steps))
    assert steps[:50] == list(range(50))
    assert steps[-100:] == list(range(FILES * STEPS - 100, FILES * STEPS))
    assert len(steps) < FILES * STEPS / 2


def test_what_is_left_out_of_the_middle_is_spread_evenly(long: Long) -> None:
    width = FILES * STEPS // 8
    steps = [row.arg for row in long.of(names.FORWARD)]
    eighths = [sum(a <= step < a + width for step in steps) for a in range(width, 6 * width, width)]
    assert min(eighths) > 0
    assert max(eighths) <= 4 * min(eighths)


def test_events_that_are_left_out_are_counted_where_they_were(long: Long) -> None:
    marks = long.of(names.OWN_LEFT_OUT)
    left_out = sum(int(row.value) for row in marks)
    assert len(long.rows) - len(marks) + left_out == FILES * EVENTS_A_FILE
    assert open_trace(long.run).losses.left_out_events == left_out
    seen = {row.arg for row in long.of(names.FORWARD)}
    for mark in marks:
        first = mark.time_ns // 1_000_000
        behind = (mark.time_ns + mark.duration_ns) // 1_000_000 - 1
        assert not seen & set(range(first, behind))


def test_steps_that_are_left_out_are_counted(long: Long) -> None:
    marks = long.of(names.OWN_LEFT_OUT)
    counted = len(long.of(names.OPTIMIZER_STEP)) + sum(row.arg for row in marks)
    assert abs(counted - FILES * STEPS) <= len(marks)  # a step is cut at either edge


def test_marks_that_give_a_meaning_stay(long: Long) -> None:
    assert sorted(row.arg for row in long.of(names.STACK_FRAME)) == list(range(FILES))


def test_a_loop_is_read_from_it_without_giant_steps(long: Long) -> None:
    trace, fold = open_trace(long.run), LoopFold(began_ns=0)
    for batch in trace.batches(trace.processes[0]):
        fold.update(batch)
    loop = fold.get()
    assert loop is not None
    assert abs(loop.steps - FILES * STEPS) <= len(long.of(names.OWN_LEFT_OUT))
    assert set(loop.durations_ns) <= {STEP_NS}
    assert sum(time.wall_ns for time in loop.phases.values()) == loop.wall_ns
    assert loop.wall_ns == pytest.approx(FILES * STEPS * STEP_NS, rel=0.001)


def test_samples_are_thinned_and_not_cut_out(long: Long) -> None:
    times = [row.time_ns for row in long.of(names.PROCESS_RSS_BYTES)]
    widest = max(after - before for before, after in pairwise(times))
    assert widest <= max(row.duration_ns for row in long.of(names.OWN_LEFT_OUT)) + 2_000_000


@pytest.mark.parametrize("killed_after", ["draft", "replace", "unlink"])
def test_a_kill_in_the_middle_of_a_rewrite_loses_and_doubles_nothing(
    make_run: MakeRun, killed_after: str
) -> None:
    run = make_run({})
    record(run, 8, limit=LIMIT)
    parts = segments(run)[0].arrows
    assert len(parts) > 5
    child = os.fork()
    if child == 0:
        die_after(killed_after)
        thinning.thin(parts[1:4])
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    rows = list(rows_of(run))
    steps = [row.arg for row in rows if row.name == names.FORWARD]
    marks = [row for row in rows if row.name == names.OWN_LEFT_OUT]
    assert steps == sorted(set(steps))
    assert bool(marks) == (killed_after != "draft")
    assert len(rows) - len(marks) + sum(int(row.value) for row in marks) == 8 * EVENTS_A_FILE


def die_after(what: str) -> None:
    replace, unlink = Path.replace, Path.unlink

    def dying_replace(self: Path, target: Path) -> None:
        if what != "draft":
            replace(self, target)
        if what != "unlink":
            os._exit(9)

    def dying_unlink(self: Path, missing_ok: bool = False) -> None:
        unlink(self, missing_ok)
        os._exit(9)

    Path.replace = dying_replace  # type: ignore[method-assign, assignment]
    Path.unlink = dying_unlink  # type: ignore[method-assign]


def test_a_reader_is_not_led_astray_by_parts_that_are_joined_while_it_reads(
    make_run: MakeRun,
) -> None:
    run = make_run({})
    record(run, 8, limit=LIMIT)
    trace = open_trace(run)
    batches = trace.batches(trace.processes[0])
    rows = list(next(batches).rows())
    parts = segments(run)[0].arrows
    thinning.thin(parts[1:3])
    thinning.thin(parts[3:5])
    rows += [row for batch in batches for row in batch.rows()]
    steps = [row.arg for row in rows if row.name == names.FORWARD]
    assert steps == sorted(set(steps))
    assert steps[-1] == 8 * STEPS - 1


def test_of_workers_that_came_and_went_the_first_and_the_newest_stay(
    make_run: MakeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    """GIVEN a loader that starts workers anew in each epoch
    WHEN there were more of them than are kept
    THEN whole ones are left out of the middle, and counted, and the program stays."""
    monkeypatch.setattr(rotation, "MOST_ENDED", 30)
    monkeypatch.setattr(rotation, "_FIRST_ENDED", 4)
    monkeypatch.setattr(rotation, "_NEWEST_ENDED", 8)
    monkeypatch.setattr(convert, "_OPEN_STREAMS", 2)
    run = make_run({})
    write_steps(run, 0)
    converter = Converter(run, 10_000_000)
    converter.convert(lambda base, path: True)
    for number in range(120):
        worker = frames_file(
            step_rows(number), pid=100 + number, parent_pid=41, monotonic_ns=number
        )
        (run / "rank-00000" / f"{100 + number}-{number}.0000.frames").write_bytes(worker)
        converter.convert(lambda base, path: True)
        assert len(segments(run)) <= 34
    converter.close()
    pids = sorted(process.pid for process in open_trace(run).processes)
    assert pids[0] == 41
    assert {100, 101, 102, 215, 216, 217, 218, 219} <= set(pids)
    left_out = read_left_out(run)
    assert left_out.processes == 121 - len(pids)
    assert left_out.events == 3 * left_out.processes
    assert open_trace(run).losses.left_out_events == left_out.events


def test_files_of_somebody_else_do_not_keep_a_run_from_its_limit(make_run: MakeRun) -> None:
    run = make_run({f"rank-00000/99-9.{n:04d}.arrows": b"foreign!" * 50 for n in range(1, 9)})
    most = record(run, 25, LIMIT)
    assert most <= LIMIT
    assert any(ArrowReader(path).thinned for path in run.rglob("41-1.*.arrows"))
    assert len(list(run.rglob("99-9.*.arrows"))) == 8
