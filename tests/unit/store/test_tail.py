from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from stepscope.store.tail import RunTail
from tests.unit.store.by_hand import NAMES, events, header, names, whole_file

MakeRun = Callable[[dict[str, bytes]], Path]
FIRST = "rank-00000/41-1.0000.frames"
SECOND = "rank-00000/41-1.0001.frames"


def starts(tail: RunTail) -> list[int]:
    return [batch.columns["time_ns"][0] for news in tail.read_new() for batch in news.batches]


def test_each_batch_is_given_once_over_several_files(make_run: MakeRun) -> None:
    run = make_run({FIRST: whole_file(batches=2)})
    tail = RunTail(run)
    assert starts(tail) == [0, 100]
    assert starts(tail) == []
    with (run / FIRST).open("ab") as file:
        file.write(events([1], 200))
    (run / SECOND).write_bytes(header() + names(NAMES) + events([2], 300))
    assert starts(tail) == [200, 300]


def test_a_cheap_look_is_at_files_that_grew_and_misses_nothing_for_good(make_run: MakeRun) -> None:
    run = make_run({FIRST: whole_file(batches=1)})
    tail = RunTail(run)
    assert tail.read_known() == [], "none is known"
    assert starts(tail) == [0]
    with (run / FIRST).open("ab") as file:
        file.write(events([1], 200))
    assert [news.batches[0].columns["time_ns"][0] for news in tail.read_known()] == [200]
    (run / SECOND).write_bytes(header() + names(NAMES) + events([2], 300))
    assert tail.read_known() == []
    assert starts(tail) == [300]


def test_a_file_counts_as_done_only_when_a_later_one_exists(make_run: MakeRun) -> None:
    run = make_run({FIRST: whole_file()})
    tail = RunTail(run)
    base = run / "rank-00000" / "41-1"
    assert tail.done_through(base) == -1
    starts(tail)
    assert tail.done_through(base) == -1
    (run / SECOND).write_bytes(whole_file())
    starts(tail)
    assert tail.done_through(base) == 0


def test_a_done_file_may_be_deleted(make_run: MakeRun) -> None:
    run = make_run({FIRST: whole_file(), SECOND: whole_file(batches=1)})
    tail = RunTail(run)
    assert len(starts(tail)) == 3
    (run / FIRST).unlink()
    assert starts(tail) == []


def test_news_say_whose_they_are(make_run: MakeRun) -> None:
    run = make_run(
        {FIRST: whole_file(), "host/7-1.0000.frames": whole_file(pid=7, role="launcher")}
    )
    roles = {(news.process.pid, news.process.role) for news in RunTail(run).read_new()}
    assert roles == {(41, "program"), (7, "launcher")}


def test_a_foreign_file_is_told_once_and_the_others_go_on(make_run: MakeRun) -> None:
    run = make_run({FIRST: b"something else", "rank-00001/9-1.0000.frames": whole_file()})
    tail = RunTail(run)
    assert len(starts(tail)) == 2
    starts(tail)
    assert len(tail.problems) == 1


def test_files_of_other_names_are_not_ours(make_run: MakeRun) -> None:
    run = make_run({"rank-00000/notes.txt": b"x", "other/1-1.0000.frames": whole_file()})
    assert RunTail(run).read_new() == []


def test_a_vanished_folder_has_no_news(tmp_path: Path) -> None:
    assert RunTail(tmp_path / "gone").read_new() == []


def test_files_of_a_process_that_is_gone_are_done_when_nothing_more_comes(
    make_run: MakeRun,
) -> None:
    run = make_run({FIRST: whole_file()})
    tail, base = RunTail(run), run / "rank-00000" / "41-1"
    assert len(starts(tail)) == 2
    for _ in range(10):  # it runs, and says nothing
        tail.note_ended(lambda process: True)
        assert starts(tail) == []
    assert not tail.has_done_files
    tail.note_ended(lambda process: process.pid != 41)
    assert starts(tail) == []
    assert tail.done_through(base) == 0


def test_the_last_words_of_a_process_are_read_before_its_files_are_done(make_run: MakeRun) -> None:
    run = make_run({FIRST: whole_file()})
    tail = RunTail(run)
    for _ in range(10):
        starts(tail)
    with (run / FIRST).open("ab") as file:
        file.write(events([1], 200))
    tail.note_ended(lambda process: False)
    assert starts(tail) == [200]
    assert tail.has_done_files


def test_processes_whose_files_were_taken_away_are_forgotten(make_run: MakeRun) -> None:
    run = make_run({f"rank-00000/{n}-1.0000.frames": whole_file(pid=n) for n in range(100, 150)})
    tail = RunTail(run)
    assert len(starts(tail)) == 100
    for path in run.rglob("*.frames"):
        path.unlink()
    assert starts(tail) == []
    assert tail._tails == {}
