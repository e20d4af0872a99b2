"""Captures of a small model that trains, asked for from outside; with the twin's recorder."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from stepscope.collect import capture_look, capture_thread
from stepscope.collect.captures import Captures
from stepscope.collect.stacks import StackCollector
from stepscope.model import names
from stepscope.model.capture_request import CaptureRequest
from stepscope.model.event import Row
from stepscope.record.recorder import Recorder
from stepscope.store.captures import ask_capture
from tests.unit.collect.conftest import Read
from tests.unit.collect.sampling import Sampled

PATIENCE_S = 60.0


class Training:
    """Steps of a small model under our hooks, and its answers."""

    def __init__(self, recorder: Recorder, folder: Path, read: Read) -> None:
        self.folder, self.recorder, self.read = folder, recorder, read
        self.hooks = Sampled(pace=None)
        self.hooks.start(recorder)
        self.captures: Captures = self.hooks.sampling._captures
        self.hooks.sampling.listen(str(folder))
        self.model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Linear(8, 2))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01)
        self.batch: Callable[[], torch.Tensor] = lambda: torch.ones(3, 4)

    def step(self) -> None:
        self.optimizer.zero_grad()
        self.model(self.batch()).square().mean().backward()
        self.optimizer.step()

    def is_watched(self) -> bool:
        """Module calls go through a look of ours."""
        return self.hooks.sampling.watch.call is not None

    def is_paused(self) -> bool:
        """Steps are not sampled by the level's own plan."""
        return self.hooks.sampling._steps.paused

    def ask(self, **fields: Any) -> int:
        return ask_capture(self.folder, CaptureRequest(**({"seconds": 60.0} | fields)))

    def until(self, is_so: Callable[[], bool], *, stepping: bool = True) -> None:
        until = time.monotonic() + PATIENCE_S
        while not is_so():
            assert time.monotonic() < until, "it never came to it"
            if stepping:
                self.step()
            time.sleep(0.001)

    def let_time_pass(self) -> None:
        """All of it that the capture has."""
        look = self.captures.look
        assert look is not None
        look.deadline_ns = 1

    def rows(self) -> list[Row]:
        return [row for row in self.read() if row.name.startswith(("capture.", "layers.", "op"))]

    def ends(self) -> dict[int, dict[str, Any]]:
        rows = self.read(names.CAPTURE_END)
        return {row.arg: json.loads(row.text) for row in rows}


@pytest.fixture
def training(
    recorder: Recorder, read: Read, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Training]:
    monkeypatch.setattr(capture_thread, "IDLE_S", 0.01)
    monkeypatch.setattr(capture_thread, "BUSY_S", 0.01)
    monkeypatch.setattr(capture_look, "MOST_SHARE", 1e9)  # steps are tiny here
    made = Training(recorder, tmp_path, read)
    yield made
    made.hooks.stop()
    assert recorder.failures == {}


def is_listening() -> bool:
    return any(thread.name == "stepscope-captures" for thread in threading.enumerate())


def test_a_capture_has_its_steps_and_then_everything_is_as_it_was(training: Training) -> None:
    training.step()
    training.ask(steps=5, operators=True)
    training.until(lambda: training.captures.look is not None)
    assert training.is_paused()
    training.until(lambda: 1 in training.ends())
    (told,) = training.ends().values()
    assert (told["steps"], told["layered"], told["profiled"]) == (5, 2, 3)
    assert told["notes"] == []
    assert 0 < told["from_ns"] < told["ended_ns"]
    rows = training.rows()
    begin = next(row for row in rows if row.name == names.CAPTURE_BEGIN)
    assert CaptureRequest.from_json(begin.text).steps == 5
    assert sum(row.name == names.LAYERS_END for row in rows) == 2
    assert {row.text.split("\t")[2] for row in rows if row.name == names.OP} == {"3"}
    assert not training.is_watched()
    assert not training.is_paused()
    assert not torch.autograd._profiler_enabled()
    training.step()
    assert not any(row.name == names.LAYERS_END for row in training.rows()[len(rows) :])


def test_results_are_the_same_to_the_bit(training: Training) -> None:
    def trained(count: int) -> list[torch.Tensor]:
        torch.manual_seed(3)
        training.model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Linear(8, 2))
        training.optimizer = torch.optim.SGD(training.model.parameters(), lr=0.1)
        for _ in range(count):
            training.step()
        return [parameter.detach().clone() for parameter in training.model.parameters()]

    alone = trained(12)
    training.ask(steps=500)
    training.until(lambda: training.captures.look is not None)
    watched = trained(12)
    assert all(map(torch.equal, alone, watched))


def test_a_program_that_makes_no_step_answers_when_its_time_is_over(training: Training) -> None:
    def stands() -> bool:
        seen = any(row.track == os.getpid() for row in training.read(names.STACK))
        return seen and training.captures.look is not None

    training.ask(steps=5, interval_s=0.005)
    training.until(stands, stepping=False)
    training.let_time_pass()
    training.until(lambda: 1 in training.ends(), stepping=False)
    told = training.ends()[1]
    assert (told["steps"], told["layered"]) == (0, 0)


def test_a_step_that_does_not_end_is_left_later_and_does_not_count(training: Training) -> None:
    training.ask(steps=500)
    training.until(training.is_watched)
    training.let_time_pass()
    training.until(lambda: 1 in training.ends(), stepping=False)
    assert training.is_watched(), "only the training thread may leave it"
    assert training.captures.is_looking
    training.step()
    assert not training.is_watched()
    assert not training.captures.is_looking


def test_a_look_that_is_taken_away_at_the_end_of_a_step_is_no_failure(training: Training) -> None:
    class TakenAway:
        ended = 0

        @property
        def is_over(self) -> bool:
            training.captures.look = None  # as our own thread does, at any moment
            return False

        def step_ended(self) -> None:
            self.ended += 1

    look: Any = TakenAway()
    training.captures.leave()  # its thread is not to see this one
    training.captures.look = look
    training.captures.after_step()
    assert look.ended == 1
    assert training.recorder.failures == {}


def test_layers_are_timed_in_no_more_steps_than_that_may_cost(
    training: Training, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(capture_look, "MOST_SHARE", 0.0)
    training.ask(steps=6)
    training.until(lambda: 1 in training.ends())
    told = training.ends()[1]
    assert (told["steps"], told["layered"]) == (6, 1)


def test_captures_are_taken_one_after_the_other(training: Training) -> None:
    training.ask(steps=2)
    training.ask(steps=3)
    training.until(lambda: 2 in training.ends())
    assert {number: told["steps"] for number, told in training.ends().items()} == {1: 2, 2: 3}
    marks = [
        (row.name, row.arg)
        for row in training.read()
        if row.name in (names.CAPTURE_BEGIN, names.CAPTURE_END)
    ]
    begin, end = names.CAPTURE_BEGIN, names.CAPTURE_END
    assert marks == [(begin, 1), (end, 1), (begin, 2), (end, 2)]


def test_what_cannot_be_read_or_came_too_late_is_said(training: Training) -> None:
    broken: Any = SimpleNamespace(to_json=lambda: "{")
    ask_capture(training.folder, broken)
    training.ask(expires_ns=1)
    training.until(lambda: 2 in training.ends(), stepping=False)
    first, second = (told["why"] for told in training.ends().values())
    assert first.startswith("the request cannot be read")
    assert second == "it was asked for too long ago"


def test_a_core_that_sees_no_tensors_says_so(training: Training) -> None:
    training.ask(steps=1, memory=True)
    training.until(lambda: 1 in training.ends())
    assert training.ends()[1]["notes"] == [
        "Memory could not be seen: the python core cannot see them."
    ]


def test_a_profiler_of_the_programs_own_comes_first(training: Training) -> None:
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]):
        training.ask(steps=4, operators=True)
        training.until(lambda: 1 in training.ends())
    told = training.ends()[1]
    assert told["profiled"] == 0
    assert told["notes"] == ["Operators were not seen: another profiler runs."]
    assert told["layered"] == 4


def test_the_rate_of_the_level_holds_again_when_it_is_over(training: Training) -> None:
    level = StackCollector(0.05)
    level.start(training.recorder)
    try:
        training.ask(steps=2, interval_s=0.002)
        training.until(lambda: training.captures.look is not None, stepping=False)
        assert _interval_ns(level) == 2_000_000
        training.until(lambda: 1 in training.ends())
        assert _interval_ns(level) == 50_000_000
    finally:
        level.stop()


def _interval_ns(collector: StackCollector) -> int:
    sampling = collector._joined
    assert sampling is not None
    plan = sampling._plan
    assert plan is not None
    return plan.interval_ns


def test_a_fork_in_the_middle_is_safe_on_both_sides(training: Training) -> None:
    training.ask(steps=30)
    training.until(training.is_watched)
    child = os.fork()
    if child == 0:
        wrong = 1
        try:
            captures = training.captures
            training.hooks.sampling.after_fork()
            still = not training.is_watched() and captures.look is None
            training.step()
            wrong = 0 if still and not captures.is_looking and is_listening() else 2
        finally:
            os._exit(wrong)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert is_listening()
    assert training.captures.look is not None
    training.until(lambda: 1 in training.ends())
    assert training.ends()[1]["steps"] == 30


def test_the_end_of_the_program_ends_a_capture_with_what_it_saw(training: Training) -> None:
    training.ask(steps=500)
    training.until(lambda: training.captures.look is not None)
    training.step()
    training.step()
    training.hooks.sampling.leave()
    told = training.ends()[1]
    assert told["notes"] == ["The program ended meanwhile."]
    assert told["steps"] >= 1
    assert not is_listening()
    assert not training.is_watched()
