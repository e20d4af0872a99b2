from __future__ import annotations

import contextlib
import json
import os
import resource
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from stepscope.model.alert import Alert, AlertState
from stepscope.model.delivery import DeliveryState
from stepscope.model.finding import Finding, Location
from stepscope.store import leftovers
from stepscope.store.alert_files import append_line
from stepscope.store.alerts import AlertStore, alerts_of, pending_everywhere
from stepscope.store.leftovers import Leftovers
from stepscope.store.outbox import LEASE_S, in_index, knows_run

HOOK, LOG = "webhook https://example.org #12345678", "log alerts.log"


def alert(id: str = "a", state: AlertState = AlertState.FIRING, **more: object) -> Alert:
    finding = Finding("stall", f"no step ({id})", 0.5, 0.9, 0.8, location=Location("t.py", 7))
    made = Alert(id, "stall", finding, state, "r", "host", 1000.0, 1001.0, step=12)
    return replace(made, **more)  # type: ignore[arg-type]


def resolved(id: str = "a") -> Alert:
    return alert(id, AlertState.RESOLVED, told_unix=1060.0, ended_unix=1050.0)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return make_run(tmp_path / "runs", "r")


def make_run(runs: Path, name: str) -> Path:
    (runs / name).mkdir(parents=True)
    (runs / name / "meta.json").write_text('{"schema": 1}')
    return runs / name


def ids(store: Leftovers, sink: str = HOOK) -> list[str]:
    return [one.alert.id for one in store.pending(sink, 100)]


def states(run: Path) -> dict[str, dict[str, DeliveryState]]:
    return {
        record.alert.id: {one.sink: one.state for one in record.deliveries}
        for record in alerts_of(run)
    }


def test_an_alert_is_in_the_runs_own_file_and_waits_for_each_of_its_sinks(run: Path) -> None:
    store = AlertStore(run.parent, run)
    store.add(alert(), [HOOK, LOG])
    (line,) = (run / "alerts.jsonl").read_text().splitlines()
    assert Alert.from_dict(json.loads(line)) == alert()
    (waiting,) = store.pending(HOOK, 10)
    assert (waiting.alert, waiting.attempts) == (alert(), 0)
    assert ids(store, LOG) == ["a"]
    assert ids(store, "nobody") == []


def test_an_alert_that_nobody_is_to_hear_of_is_in_the_index_too(run: Path) -> None:
    store = AlertStore(run.parent, run)
    store.add(alert("a"), [])
    store.add(alert("b"), [])
    with contextlib.closing(sqlite3.connect(run.parent / "index.sqlite")) as database:
        found = database.execute("SELECT notice, run FROM alerts ORDER BY notice").fetchall()
        assert database.execute("SELECT count(*) FROM deliveries").fetchone() == (0,)
    assert found == [("a:firing", str(run.resolve())), ("b:firing", str(run.resolve()))]
    assert store.counts() == (0, 0, 0, 0, 0)


def test_what_a_sink_took_is_not_offered_again(run: Path) -> None:
    store = AlertStore(run.parent, run)
    store.add(alert(), [HOOK, LOG])
    store.delivered(store.pending(HOOK, 1)[0].id)
    assert ids(store) == []
    assert ids(store, LOG) == ["a"]
    assert states(run) == {"a": {HOOK: DeliveryState.DELIVERED, LOG: DeliveryState.PENDING}}
    assert store.counts()[:3] == (1, 1, 0)


def test_the_order_of_telling_is_the_order_of_delivering(run: Path) -> None:
    store = AlertStore(run.parent, run)
    told = [f"{number:03}" for number in range(30)]
    for id in told:
        store.add(alert(id), [HOOK])
    store.failed(store.pending(HOOK, 1)[0].id, "refused", 5.0)
    assert ids(store) == told
    assert [one.alert.id for one in store.pending(HOOK, 4)] == told[:4]


def test_a_failure_is_counted_with_its_reason(run: Path) -> None:
    store = AlertStore(run.parent, run)
    store.add(alert(), [HOOK])
    for _ in range(3):
        store.failed(store.pending(HOOK, 1)[0].id, "no connection", 7.0)
    assert store.pending(HOOK, 1)[0].attempts == 3
    (status,) = alerts_of(run)[0].deliveries
    assert status == (HOOK, DeliveryState.PENDING, 3, 7.0, "no connection", 1)


def test_what_a_sink_will_never_take_is_refused_and_known_to_be(run: Path) -> None:
    store = AlertStore(run.parent, run)
    store.add(alert(), [HOOK])
    store.failed(store.pending(HOOK, 1)[0].id, "404", 7.0, permanent=True)
    assert ids(store) == []
    assert states(run) == {"a": {HOOK: DeliveryState.REFUSED}}
    assert store.counts().refused == 1


def test_the_same_notice_again_says_more_and_is_not_sent_again(run: Path) -> None:
    store = AlertStore(run.parent, run)
    store.add(alert(), [HOOK, LOG])
    store.delivered(store.pending(HOOK, 1)[0].id)
    store.add(alert(capture="captures/1"), [HOOK, LOG])
    assert ids(store) == []
    assert [one.alert.capture for one in store.pending(LOG, 9)] == ["captures/1"]
    assert [record.alert.capture for record in alerts_of(run)] == ["captures/1"]


def test_an_incident_is_shown_as_it_is_known_last(run: Path) -> None:
    store = AlertStore(run.parent, run)
    store.add(alert("a"), [HOOK])
    store.add(alert("b"), [HOOK])
    store.delivered(store.pending(HOOK, 1)[0].id)
    store.add(resolved("a"), [HOOK])
    records = alerts_of(run)
    assert [(one.alert.id, one.alert.is_firing) for one in records] == [("a", False), ("b", True)]
    assert records[0].deliveries[0].state is DeliveryState.PENDING  # of its end


def test_what_waits_of_an_incident_is_shown_with_what_hinders_it(run: Path) -> None:
    store = AlertStore(run.parent, run)
    store.add(alert(), [HOOK])
    store.failed(store.pending(HOOK, 1)[0].id, "away", 7.0)
    store.add(resolved(), [HOOK])
    (status,) = alerts_of(run)[0].deliveries
    assert status == (HOOK, DeliveryState.PENDING, 1, 7.0, "away", 2)


def test_an_index_that_was_lost_is_filled_again_from_the_runs(run: Path) -> None:
    store = AlertStore(run.parent, run)
    for id in "abc":
        store.add(alert(id), [HOOK])
    store.delivered(store.pending(HOOK, 1)[0].id)
    store.failed(store.pending(HOOK, 1)[0].id, "410", 7.0, permanent=True)
    store.close()
    for path in run.parent.glob("index.sqlite*"):
        path.unlink()
    assert states(run) == {
        "a": {HOOK: DeliveryState.DELIVERED},
        "b": {HOOK: DeliveryState.REFUSED},
        "c": {HOOK: DeliveryState.PENDING},
    }
    assert [row.alert.id for row in pending_everywhere(run.parent, HOOK)] == ["c"]


@pytest.mark.parametrize("content", [b"no database" * 99, b"SQLite format 3\0" + b"\xff" * 9000])
def test_a_damaged_index_costs_no_alert(run: Path, content: bytes) -> None:
    store = AlertStore(run.parent, run)
    store.add(alert("a"), [HOOK])
    for path in run.parent.glob("index.sqlite*"):
        path.unlink()
    (run.parent / "index.sqlite").write_bytes(content)
    store.add(alert("b"), [HOOK])
    assert ids(store) == ["a", "b"]
    assert [row.alert.id for row in pending_everywhere(run.parent)] == ["a", "b"]


def test_a_page_that_went_bad_inside_the_index_costs_no_alert(run: Path) -> None:
    store = AlertStore(run.parent, run)
    for number in range(60):
        store.add(alert(str(number)), [HOOK])
    with contextlib.closing(sqlite3.connect(run.parent / "index.sqlite")) as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    content = bytearray((run.parent / "index.sqlite").read_bytes())
    content[8192:] = b"\xaa" * (len(content) - 8192)
    (run.parent / "index.sqlite").write_bytes(content)
    store.add(alert("last"), [HOOK])
    assert len(ids(store)) == 61
    assert len(pending_everywhere(run.parent, HOOK)) == 61


@contextlib.contextmanager
def locked(runs: Path) -> Iterator[None]:
    with contextlib.closing(sqlite3.connect(runs / "index.sqlite")) as database:
        database.execute("BEGIN EXCLUSIVE")
        yield


def test_a_locked_index_is_caught_up_with_later(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leftovers, "_PATIENCE_S", 0.05)
    store = AlertStore(run.parent, run)
    with locked(run.parent):
        store.add(alert(), [HOOK])
        assert ids(store) == ["a"]
        assert store.counts().unsaved == 2  # the alert and its delivery
    store.add(alert("b"), [HOOK])
    assert store.counts().unsaved == 0
    assert [row.alert.id for row in pending_everywhere(run.parent, HOOK)] == ["a", "b"]


def test_what_was_delivered_while_the_index_was_locked_is_not_sent_by_the_next(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leftovers, "_PATIENCE_S", 0.05)
    store = AlertStore(run.parent, run)
    store.add(alert(), [HOOK])
    with locked(run.parent):
        store.delivered(store.pending(HOOK, 1)[0].id)
    assert ids(Leftovers(run.parent)) == []
    assert pending_everywhere(run.parent, HOOK) == []


def test_nor_by_one_that_was_there_before(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leftovers, "_PATIENCE_S", 0.05)
    now = [1000.0]
    first = AlertStore(run.parent, run, lambda: now[0])
    second = AlertStore(run.parent, make_run(run.parent, "s"), lambda: now[0])
    assert ids(second) == []
    first.add(alert(), [HOOK])
    with locked(run.parent):
        first.delivered(first.pending(HOOK, 1)[0].id)
        first.close()
    now[0] += LEASE_S + 1.0  # as if its process had ended
    assert ids(second) == []


def test_without_an_index_that_can_be_opened_memory_and_the_file_do(run: Path) -> None:
    (run.parent / "index.sqlite").mkdir()
    store = AlertStore(run.parent, run)
    store.add(alert("a"), [HOOK])
    store.add(alert("b"), [HOOK])
    store.delivered(store.pending(HOOK, 1)[0].id)
    assert ids(store) == ["b"]
    assert [row.alert.id for row in pending_everywhere(run.parent, HOOK)] == ["b"]
    store.close()


def test_a_full_disk_is_caught_up_with_later(run: Path) -> None:
    store = AlertStore(run.parent, run)
    (run / "alerts.jsonl").symlink_to("/dev/full")
    store.add(alert(), [HOOK])
    assert ids(store) == ["a"]
    assert store.counts().unsaved == 1
    (run / "alerts.jsonl").unlink()
    store.delivered(store.pending(HOOK, 1)[0].id)
    assert store.counts().unsaved == 0
    assert states(run) == {"a": {HOOK: DeliveryState.DELIVERED}}


def test_another_run_that_takes_nothing_holds_up_no_alert_and_is_counted(run: Path) -> None:
    first = AlertStore(run.parent, run)
    first.add(alert("a"), [HOOK])
    first.close()
    (run / "deliveries.jsonl").mkdir()  # as good as read-only, for any user
    own = make_run(run.parent, "s")
    second = AlertStore(run.parent, own)
    second.delivered(second.pending(HOOK, 1)[0].id)
    second.add(alert("b"), [HOOK])
    assert list(states(own)) == ["b"]
    assert (second.counts().unsaved, second.counts().lost) == (0, 1)


def test_a_file_that_takes_nothing_yet_holds_up_no_other(run: Path) -> None:
    first = AlertStore(run.parent, run)
    for id in "ab":
        first.add(alert(id), [HOOK])
    first.close()
    own = make_run(run.parent, "s")
    second = AlertStore(run.parent, own)
    (run / "deliveries.jsonl").write_bytes(b"\n" * (1 << 20))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, limits[1]))  # it can grow no further
    try:
        for one in second.pending(HOOK, 2):
            second.delivered(one.id)
        second.add(alert("c"), [HOOK])
        assert list(states(own)) == ["c"]
        assert (second.counts().unsaved, second.counts().lost) == (2, 0)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    (run / "deliveries.jsonl").unlink()
    second.close()
    lines = (run / "deliveries.jsonl").read_text().splitlines()
    assert [json.loads(line)["id"][0] for line in lines] == ["a", "b"]


def test_what_memory_has_no_room_for_is_counted(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leftovers, "MOST_WAITING", 2)
    store = AlertStore(run.parent, run)
    (run / "alerts.jsonl").mkdir()  # nothing can be written there
    for id in "abc":
        store.add(alert(id), [HOOK])
    assert store.counts().lost == 1


def test_a_torn_line_hides_no_other(run: Path) -> None:
    (run / "alerts.jsonl").write_text('{"id": "torn", "ru')
    store = AlertStore(run.parent, run)
    store.add(alert("b"), [HOOK])
    assert list(states(run)) == ["b"]


def test_a_short_write_is_an_error_and_the_line_comes_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "lines"
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", lambda fd, content: len(content[:3]))
        with pytest.raises(OSError, match="full"):
            append_line(path, "abcdef")
    path.write_text("abc")
    append_line(path, "abcdef")
    assert path.read_text() == "abc\nabcdef\n"


@pytest.mark.parametrize(
    "line",
    [
        "[]",
        "null",
        "[" * 50_000,
        '{"id": 1}',
        json.dumps(alert().to_dict() | {"step": [1]}),
        json.dumps(alert().to_dict() | {"ranks": ["x"]}),
        json.dumps(alert().to_dict() | {"finding": {"kind": "stall"}}),
        json.dumps(alert().to_dict() | {"began_unix": -1e300}),
        json.dumps(alert().to_dict() | {"began_unix": 10**400}),
        json.dumps(alert().to_dict() | {"told_unix": float("nan")}),
        json.dumps(alert().to_dict() | {"ended_unix": float("inf")}),
        json.dumps(alert().to_dict() | {"id": "\ud800"}),
        json.dumps(alert().to_dict() | {"sinks": ["\udcff"]}),
        "\udcff".encode("utf-8", "surrogateescape").decode("latin-1"),
    ],
)
def test_lines_that_are_no_alerts_are_passed_over(run: Path, line: str) -> None:
    (run / "alerts.jsonl").write_bytes(line.encode("latin-1") + b"\n")
    (run / "deliveries.jsonl").write_text("{}\n7\n")
    AlertStore(run.parent, run).add(alert("b"), [HOOK])
    assert list(states(run)) == ["b"]
    assert [row.alert.id for row in pending_everywhere(run.parent)] == ["b"]


@pytest.mark.parametrize("at", ["-1e300", "NaN", "1" + "0" * 400])
def test_an_outcome_at_no_time_is_passed_over(run: Path, at: str) -> None:
    store = AlertStore(run.parent, run)
    store.add(alert("b"), [HOOK])
    id = store.pending(HOOK, 1)[0].id
    line = f'{{"id": {json.dumps(id)}, "state": "refused", "at_unix": {at}, "error": ""}}\n'
    (run / "deliveries.jsonl").write_text(line)
    assert states(run) == {"b": {HOOK: DeliveryState.PENDING}}


def test_values_that_are_no_numbers_are_written_as_json(run: Path) -> None:
    AlertStore(run.parent, run).add(alert(value=float("nan"), limit=float("inf")), [])
    text = (run / "alerts.jsonl").read_text()
    saved = json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    assert (saved["value"], saved["limit"]) == (None, None)


def test_the_next_run_takes_over_what_an_earlier_one_left(run: Path) -> None:
    first = AlertStore(run.parent, run)
    first.add(alert("a"), [HOOK])
    first.close()
    second = AlertStore(run.parent, make_run(run.parent, "s"))
    second.add(alert("b"), [HOOK])
    assert sorted(ids(second)) == ["a", "b"]
    for one in second.pending(HOOK, 10):
        second.delivered(one.id)
    assert states(run) == {"a": {HOOK: DeliveryState.DELIVERED}}
    assert states(run.parent / "s") == {"b": {HOOK: DeliveryState.DELIVERED}}


def test_what_another_is_at_work_on_is_left_to_it_until_it_was_not_heard_of(run: Path) -> None:
    now = [1000.0]
    first = AlertStore(run.parent, run, lambda: now[0])
    first.add(alert("a"), [HOOK])
    second = Leftovers(run.parent, None, lambda: now[0])
    assert ids(second) == []
    now[0] += LEASE_S - 1.0
    assert ids(first) == ["a"]  # it is heard of
    now[0] += LEASE_S - 1.0
    assert ids(second) == []
    now[0] += 2.0
    assert ids(second) == ["a"]


def test_a_clock_that_was_set_back_blocks_nothing_for_good(run: Path) -> None:
    now = [1_000_000.0]
    AlertStore(run.parent, run, lambda: now[0]).add(alert("a"), [HOOK])
    now[0] = 5_000.0
    assert ids(Leftovers(run.parent, None, lambda: now[0])) == ["a"]


def test_of_one_run_alone(run: Path) -> None:
    for name in "st":
        folder = make_run(run.parent, name)
        store = AlertStore(run.parent, folder)
        store.add(alert(name), [HOOK])
        store.close()
    assert ids(Leftovers(run.parent, run.parent / "s")) == ["s"]


def test_alerts_of_runs_that_were_deleted_are_forgotten(run: Path) -> None:
    store = AlertStore(run.parent, run)
    store.add(alert("a"), [HOOK])
    store.close()
    for path in run.iterdir():
        path.unlink()
    run.rmdir()
    assert pending_everywhere(run.parent) == []


def test_a_run_that_lies_elsewhere_is_in_the_index_too(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    run = make_run(tmp_path / "elsewhere", "r")
    store = AlertStore(tmp_path / "runs", run)
    store.add(alert("a"), [HOOK])
    assert [row.run for row in pending_everywhere(tmp_path / "runs")] == [str(run.resolve())]


def test_without_a_runs_folder_the_file_of_the_run_is_enough(tmp_path: Path) -> None:
    run = make_run(tmp_path / "elsewhere", "r")
    store = AlertStore(tmp_path / "runs", run)
    store.add(alert("a"), [HOOK])
    assert ids(store) == ["a"]
    assert not (tmp_path / "runs").exists()
    assert list(states(run)) == ["a"]


def test_a_folder_whose_name_is_no_utf_8_is_in_the_index_too(tmp_path: Path) -> None:
    runs = tmp_path / os.fsdecode(b"runs-\xff")
    run = make_run(runs, "r")
    store = AlertStore(runs, run)
    for id in "ab":
        store.add(alert(id), [HOOK])
    store.failed(store.pending(HOOK, 1)[0].id, "it said \udcff", 7.0)
    assert store.counts().unsaved == 0
    store.close()
    assert [row.run for row in pending_everywhere(runs, run=run)] == [str(run.resolve())] * 2
    assert alerts_of(run)[0].deliveries[0][2:5] == (1, 7.0, "it said ?")
    later = Leftovers(runs, run)
    for one in later.pending(HOOK, 9):
        later.delivered(one.id)
    assert states(run) == {id: {HOOK: DeliveryState.DELIVERED} for id in "ab"}
    for path in run.iterdir():
        path.unlink()
    run.rmdir()
    assert pending_everywhere(runs) == []


@pytest.mark.parametrize("column", ["owner", "claimed_unix"])
def test_a_claim_that_is_none_holds_nothing_up(run: Path, column: str) -> None:
    AlertStore(run.parent, run).add(alert("a"), [HOOK])
    with contextlib.closing(sqlite3.connect(run.parent / "index.sqlite")) as database:
        database.execute(f"UPDATE deliveries SET {column} = x'ff'")
        database.commit()
    assert ids(Leftovers(run.parent)) == ["a"]


@pytest.mark.parametrize("error", [ValueError, TypeError, OverflowError])
def test_an_index_that_holds_what_it_cannot_is_done_without(
    run: Path, error: type[Exception]
) -> None:
    def work(index: sqlite3.Connection) -> None:
        index.execute("INSERT INTO alert_files VALUES ('x', 1)")
        raise error

    assert in_index(run.parent, 1.0, work) is None
    assert in_index(run.parent, 1.0, lambda index: knows_run(index, Path("x"))) is False


def test_several_threads_lose_nothing(run: Path) -> None:
    store = AlertStore(run.parent, run)

    def add(first: int) -> None:
        for number in range(first, first + 20):
            store.add(alert(str(number)), [HOOK])
            store.delivered(store.pending(HOOK, 1)[0].id)

    threads = [threading.Thread(target=add, args=(at,)) for at in (0, 100, 200, 300)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    left = len(ids(store))
    assert store.counts().delivered + left == 80
    assert len(states(run)) == 80
    # Two threads may have offered the same one: it is marked once.
    assert (
        sum(found[HOOK] is DeliveryState.DELIVERED for found in states(run).values()) == 80 - left
    )


_PROGRAM = """
import sys
from dataclasses import replace
from pathlib import Path
from stepscope.model.alert import Alert
import json
from stepscope.store.alerts import AlertStore
run = Path(sys.argv[1])
store = AlertStore(run.parent, run)
made = Alert.from_dict(json.loads(sys.argv[2]))
number = 0
while True:
    store.add(replace(made, id=f"{sys.argv[3]}{number}"), ["hook"])
    print("added", f"{sys.argv[3]}{number}", flush=True)
    if number % 2:
        waiting = store.pending("hook", 1)[0]
        store.delivered(waiting.id)
        print("taken", waiting.alert.id, flush=True)
    number += 1
"""


def test_what_was_acknowledged_survives_kill_9_of_several_processes(run: Path) -> None:
    made = json.dumps(alert().to_dict())
    programs = [
        subprocess.Popen(
            [sys.executable, "-c", _PROGRAM, str(run), made, name],
            stdout=subprocess.PIPE,
            text=True,
        )
        for name in "xy"
    ]
    heard = []
    for program in programs:
        assert program.stdout is not None
        heard.append([program.stdout.readline() for _ in range(30)])
    for program, lines in zip(programs, heard, strict=True):
        program.send_signal(signal.SIGKILL)
        rest, _ = program.communicate(timeout=60)
        lines += [line for line in rest.splitlines(keepends=True) if line.endswith("\n")]
    found = states(run)
    pending = {row.alert.id for row in pending_everywhere(run.parent, "hook")}
    said = [tuple(line.split()) for lines in heard for line in lines]
    added = {id for word, id in said if word == "added"}
    taken = {id for word, id in said if word == "taken"}
    assert len(taken) >= 10
    assert added <= set(found)
    assert all(found[id]["hook"] is DeliveryState.DELIVERED for id in taken)
    assert not taken & pending
    # Their processes are gone: whoever comes next delivers the rest at once.
    assert set(ids(Leftovers(run.parent), "hook")) == pending
