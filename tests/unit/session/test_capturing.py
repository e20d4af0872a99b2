"""The launcher's side of captures, on batches made by hand. Times in ms."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from stepscope.model import names
from stepscope.model.capture import Capture
from stepscope.model.capture_request import CaptureRequest, request_name
from stepscope.model.process import ProcessInfo
from stepscope.session import capturing
from stepscope.session.capturing import ANSWER_S, Captures
from stepscope.store.captures import ask_capture, read_capture
from tests.unit.analyze.made import MS, THREAD, Event, backward, batch, forward, mark, next_, sample
from tests.unit.analyze.made import optimizer as optimized

SETTLED = 5_000.0


def process(pid: int = THREAD, parent: int = 1, rank: int = 0) -> ProcessInfo:
    return ProcessInfo(pid, parent, rank, 1, "here", "program", (), "3.11", "native", 0, 5 * MS)


def launcher_process() -> ProcessInfo:
    return replace(process(pid=7), role="launcher")


def step(at: float, wait: float = 6.0) -> list[Event]:
    """10 ms, of which it waits for `wait`."""
    return [
        next_(at, at + wait),
        forward(at + wait, at + wait + 1),
        backward(at + wait + 1, at + wait + 2),
        optimized(at + wait + 2, at + 10),
    ]


def stack(at: float, number: int, tag: str = "", ms: float = 1.0, track: int = THREAD) -> Event:
    made = sample(names.STACK, at, ms * MS, number) | {"track": track}
    return made | {"text": tag} if tag else made


def frame(at: float, number: int, line: int, caller: int = 0, file: str = "/my/train.py") -> Event:
    return mark(names.STACK_FRAME, at, number, f"{caller}\t{line}\tmain\t{file}")


def begins(at: float, number: int = 1) -> Event:
    return mark(names.CAPTURE_BEGIN, at, number, CaptureRequest().to_json())


def ends(at: float, number: int = 1, **told: Any) -> Event:
    fields = {"steps": 0, "from_ns": 0, "ended_ns": round(at * MS), "notes": []} | told
    return mark(names.CAPTURE_END, at, number, json.dumps(fields))


class Launcher:
    def __init__(self, folder: Path) -> None:
        self.status, self.run = folder / "status", folder / "a-run"
        self.status.mkdir()
        self.run.mkdir()
        self.now_ms = 0.0
        self.captures = Captures(self.status, self.run, lambda: round(self.now_ms * MS))

    def take(self, events: Sequence[Event], whose: ProcessInfo | None = None) -> None:
        self.captures.take(whose or process(), batch(events))

    def result(self, number: int = 1) -> Capture:
        found = read_capture(self.run, number)
        assert found is not None
        return found


@pytest.fixture
def launcher(tmp_path: Path) -> Launcher:
    return Launcher(tmp_path)


def test_nothing_is_kept_while_nobody_asks(launcher: Launcher) -> None:
    launcher.take(step(0.0))
    assert len(launcher.captures._kept) == 0
    launcher.captures.ask(CaptureRequest())
    assert launcher.captures.is_busy
    launcher.take(step(10.0))
    assert len(launcher.captures._kept) == 1


def test_only_the_time_of_the_capture_is_folded(launcher: Launcher) -> None:
    number = launcher.captures.ask(CaptureRequest(steps=4, alert="alert-7"))
    before = [event for at in range(5) for event in step(10.0 * at, wait=1.0)]
    launcher.take(before)
    inside = [event for at in range(5, 9) for event in step(10.0 * at)]
    stacks = [frame(51, 3, 12), *(stack(50.5 + at, 3, names.INPUT_NEXT) for at in range(5))]
    launcher.take([begins(44.0), *inside, *stacks])
    after = [event for at in range(9, 14) for event in step(10.0 * at, wait=1.0)]
    launcher.take([*after, ends(95.0, steps=4, from_ns=50 * MS, ended_ns=90 * MS)])
    assert launcher.captures.ended() == [], "others may have something to tell"
    launcher.now_ms = SETTLED
    (captured,) = launcher.captures.ended()
    assert (captured.number, captured.path) == (number, "captures/1.json")
    assert captured.alert == "alert-7"
    assert captured.title.startswith("Input-bound")
    assert (captured.location.file, captured.location.line) == ("/my/train.py", 12)
    found = launcher.result()
    assert found.summary.steps.count == found.details.steps == 4
    assert found.summary.wall_ms == pytest.approx(40.0)
    shares = {part.phase: part.share for part in found.summary.breakdown if part.ms}
    assert shares["input wait"] == pytest.approx(0.6)
    assert found.details.seconds == pytest.approx(0.04)
    assert found.details.began_unix == pytest.approx(0.055)
    (main,) = (one for one in found.details.stacks if one.phase == "input wait")
    assert main.samples == 5
    assert not launcher.captures.is_busy
    assert not launcher.captures._kept


@pytest.mark.parametrize(("first", "cores"), [(0, 1.5), (6, None)])
def test_what_the_program_used_is_told_from_a_sample_before(
    launcher: Launcher, first: int, cores: float | None
) -> None:
    def sampled(second: int) -> list[Event]:
        used_ns = 1e12 + 1.5e9 * second  # a process that has run for long
        return [sample(names.PROCESS_CPU_NS, 1000.0 * second, used_ns, THREAD)]

    for second in range(first, 5):
        launcher.take(sampled(second), launcher_process())
    launcher.captures.ask(CaptureRequest())
    inside = [event for at in range(100) for event in step(5_000 + 10.0 * at)]
    told = ends(6_010.0, steps=100, from_ns=5_000 * MS, ended_ns=6_000 * MS)
    launcher.take([begins(4_900.0), *inside, told])
    for second in range(5, 9):
        launcher.take(sampled(second) if second >= first else [], launcher_process())
    launcher.now_ms = 9_000
    launcher.captures.ended()
    found = launcher.result().summary.resources["program"]["cpu_cores"]
    assert found == (pytest.approx(cores) if cores else None)


def test_a_program_that_makes_no_steps_tells_where_it_stands(launcher: Launcher) -> None:
    launcher.captures.ask(CaptureRequest())
    names_told = [frame(100, 5, 40), frame(100, 6, 77, caller=5)]
    waiting = [stack(100.0 + at, 6, names.INPUT_NEXT) for at in range(1, 21)]
    other = [stack(110.0, 5, track=THREAD + 1)]
    launcher.take([*names_told, begins(100.0), *waiting, *other, ends(200.0)])
    launcher.now_ms = SETTLED
    (captured,) = launcher.captures.ended()
    assert captured.title == "No step ended: it stands in input wait at /my/train.py:77"
    assert captured.location.line == 77
    details = launcher.result().details
    assert [(one.where, one.phase, one.samples) for one in details.stacks] == [
        ("main", "input wait", 20),
        ("thread", "other threads", 1),
    ]
    assert details.notes[0].startswith("No step ended")
    assert details.ranks == (0,)


def test_stacks_that_were_named_long_before_have_their_names(launcher: Launcher) -> None:
    worker = process(pid=300, parent=THREAD)
    launcher.take([frame(1, 6, 77)])
    launcher.take([frame(1, 6, 9, file="/my/data.py")], worker)
    launcher.captures.ask(CaptureRequest())
    launcher.take([begins(100.0), stack(110.0, 6, names.INPUT_NEXT), ends(200.0)])
    launcher.take([stack(110.0, 6, names.WORKER_FETCH, track=300)], worker)
    launcher.now_ms = SETTLED
    launcher.captures.ended()
    main, other = launcher.result().details.stacks
    assert (main.where, main.lines[0].location.line) == ("main", 77)
    assert (other.where, other.phase) == ("worker", names.WORKER_FETCH)
    assert (other.lines[0].location.file, other.lines[0].location.line) == ("/my/data.py", 9)


def test_processes_that_came_and_went_are_forgotten(
    launcher: Launcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(capturing, "PROCESSES", 3)
    for pid in range(200, 210):
        launcher.take([frame(1, 6, 77)], process(pid=pid))
        launcher.take([frame(1, 6, 77)])
    assert len(launcher.captures._meanings) == 3
    assert THREAD in {key[1] for key in launcher.captures._meanings}


def test_nobody_answers(launcher: Launcher) -> None:
    launcher.captures.ask(CaptureRequest(seconds=10.0))
    assert launcher.captures.ended() == []
    launcher.now_ms = (ANSWER_S + 9.0) * 1000
    assert launcher.captures.ended() == []
    launcher.now_ms = (ANSWER_S + 11.0) * 1000
    (captured,) = launcher.captures.ended()
    assert captured.title == "Nothing was captured"
    details = launcher.result().details
    assert details.ranks == ()
    assert details.notes[0].startswith("No process of the program answered")


def test_a_process_that_was_killed_leaves_what_it_had(launcher: Launcher) -> None:
    launcher.captures.ask(CaptureRequest(seconds=10.0))
    inside = [event for at in range(5) for event in step(10.0 * at)]
    launcher.take([begins(0.0), *inside])
    launcher.now_ms = 12_000
    assert launcher.captures.ended() == []
    launcher.now_ms = 14_000
    (captured,) = launcher.captures.ended()
    assert captured.title.startswith("Input-bound")
    details = launcher.result().details
    assert details.steps == 5
    assert details.notes == ("A process ended in the middle of it: this is what it had recorded.",)


def test_the_end_of_the_run_ends_a_capture(launcher: Launcher) -> None:
    launcher.captures.ask(CaptureRequest())
    launcher.take([begins(0.0), *step(1.0), *step(11.0)])
    launcher.captures.ask(CaptureRequest())
    first, second = launcher.captures.close()
    assert (first.number, second.number) == (1, 2)
    assert launcher.result(1).details.steps == 2
    assert launcher.result(2).details.title == "Nothing was captured"
    launcher.take(step(20.0))
    assert launcher.captures.close() == launcher.captures.ended() == []


def test_those_that_make_no_steps_are_not_waited_for_when_others_have_made_theirs(
    launcher: Launcher,
) -> None:
    launcher.captures.ask(CaptureRequest(seconds=600.0))
    trained = [event for at in range(4) for event in step(10.0 * at)]
    told = ends(45.0, steps=4, from_ns=0, ended_ns=40 * MS)
    launcher.take([begins(0.0), *trained, told])
    launcher.take([begins(3.0)], process(pid=200, parent=THREAD, rank=1))
    launcher.now_ms = 3_000
    assert launcher.captures.ended() == []
    launcher.now_ms = 3_100
    assert len(launcher.captures.ended()) == 1
    assert launcher.result().details.ranks == (0, 1)


def test_two_captures_are_told_apart(launcher: Launcher) -> None:
    launcher.captures.ask(CaptureRequest())
    assert ask_capture(launcher.status, CaptureRequest()) == 2  # by somebody else
    first = [event for at in range(3) for event in step(10.0 * at)]
    second = [event for at in range(5, 10) for event in step(10.0 * at, wait=2.0)]
    launcher.take([begins(0.0), *first, ends(35.0, steps=3, from_ns=0, ended_ns=30 * MS)])
    over = ends(105.0, 2, steps=5, from_ns=50 * MS, ended_ns=100 * MS)
    launcher.take([begins(49.0, 2), *second, over])
    launcher.now_ms = SETTLED
    assert [one.number for one in launcher.captures.ended()] == [1, 2]
    assert [launcher.result(number).summary.steps.count for number in (1, 2)] == [3, 5]


def test_lines_that_hold_more_with_every_step_are_named(launcher: Launcher) -> None:
    def held(line: int, sizes: list[int]) -> Event:
        told = {"bytes": sizes, "blocks": 3, "every": 2, "stack": [["/my/a.py", line, "keep"]]}
        return mark(names.CAPTURE_MEMORY, 30.0, 1, json.dumps(told))

    launcher.captures.ask(CaptureRequest(memory=True))
    events = [begins(0.0), *step(1.0), *step(11.0)]
    broken = [mark(names.CAPTURE_MEMORY, 30.0, 1, text) for text in ("{", "[]", '{"bytes": [-1]}')]
    events += [held(8, [0, 100, 200, 300]), held(9, [50, 90, 90, 90, 90]), *broken]
    launcher.take([*events, ends(40.0, steps=2, from_ns=0, ended_ns=30 * MS)])
    launcher.now_ms = SETTLED
    launcher.captures.ended()
    (line,) = launcher.result().details.memory
    assert (line.location.file, line.location.line) == ("/my/a.py", 8)
    assert line.bytes_per_step == pytest.approx(50.0), "every second step was looked at"
    assert (line.first_bytes, line.last_bytes, line.blocks) == (0, 300, 3)


@pytest.mark.parametrize(
    "text",
    [" ", "[]", '{"steps": "x"}', '{"notes": {"a": 1}, "from_ns": "x"}', '{"notes": [[], 7]}'],
)
def test_marks_that_say_nonsense_do_no_harm(launcher: Launcher, text: str) -> None:
    launcher.captures.ask(CaptureRequest())
    launcher.take([begins(0.0), *step(1.0), mark(names.CAPTURE_END, 20.0, 1, text)])
    launcher.now_ms = SETTLED
    (captured,) = launcher.captures.ended()
    assert captured.path == "captures/1.json"


def test_a_request_that_cannot_be_read_and_one_of_another_life_do_no_harm(
    launcher: Launcher,
) -> None:
    number = launcher.captures.ask(CaptureRequest())
    (launcher.status / request_name(number)).unlink()
    launcher.take([begins(0.0, 99), ends(1.0, 99), ends(2.0, why="it cannot be read")])
    launcher.now_ms = SETTLED
    launcher.captures.ended()
    assert launcher.result().details.notes == ("It was not taken: it cannot be read.",)


def test_what_is_kept_is_bounded(launcher: Launcher, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capturing, "MOST_ROWS", 10)
    launcher.captures.ask(CaptureRequest())
    for at in range(20):
        launcher.take(step(10.0 * at))
    assert sum(kept.batch.count for kept in launcher.captures._kept) <= 10


def test_without_a_status_folder_nobody_can_be_asked(tmp_path: Path) -> None:
    captures = Captures(tmp_path / "none", tmp_path)
    assert captures.ask(CaptureRequest()) == 0
    captures.take(process(), batch(step(0.0)))
    assert captures.ended() == captures.close() == []


def test_a_run_folder_that_is_gone_is_no_reason_to_stop(launcher: Launcher) -> None:
    launcher.captures.ask(CaptureRequest())
    launcher.take([begins(0.0), ends(1.0)])
    launcher.run.rmdir()
    launcher.now_ms = SETTLED
    (captured,) = launcher.captures.ended()
    assert captured.path == ""
