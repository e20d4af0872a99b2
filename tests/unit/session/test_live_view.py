from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from stepscope.analyze.fold import LoopFold
from stepscope.analyze.resources import ResourceFold
from stepscope.model import names
from stepscope.model.finding import Finding
from stepscope.model.live import LIVE_POINTS, Left, RunState
from stepscope.model.watching import Reading
from stepscope.session.live_view import LiveFold, LiveSources, Outlook, command_line
from stepscope.store.live import read_live
from stepscope.store.live_request import request
from tests.unit.analyze.made import MS, batch, fold, sample, training
from tests.unit.report.made_live import NOW_UNIX, made_finding

META = {"name": "mnist", "command": ["python", "my train.py"], "started_unix": NOW_UNIX - 60}


class Clock:
    def __init__(self, now_ns: int) -> None:
        self.now_ns = now_ns

    def __call__(self) -> int:
        return self.now_ns


class Sources:
    """A loop of `steps`, sampled once in a while; counts how often it was asked."""

    def __init__(self, steps: int, took_ns: int = 0) -> None:
        self.loop: LoopFold = fold(training(steps))
        found = self.loop.get()
        assert found is not None
        self.end_ns = found.end_ns
        self.clock = Clock(found.end_ns + 2_000 * MS)
        self.asked = 0
        self.verdicts = 0
        self._took_ns = took_ns
        self._resources = ResourceFold()
        for part in range(50):
            at = found.end_ns / MS * part / 49
            samples = ((names.PROCESS_CPU_NS, at * MS), (names.PROCESS_RSS_BYTES, 1e9 + part))
            self._resources.update(batch([sample(name, at, value) for name, value in samples]))

    def made(self, outlook: Callable[[], Outlook] = Outlook) -> LiveSources:
        return LiveSources(self._loops, self.loop.progress, self._sampled, self._verdict, outlook)

    def _loops(self) -> list[Any]:
        self.asked += 1
        found = self.loop.get()
        return [] if found is None else [found]

    def _sampled(self) -> ResourceFold:
        return self._resources

    def _verdict(self) -> Finding | None:
        self.verdicts += 1
        self.clock.now_ns += self._took_ns
        return made_finding("input-cpu")


def live(run: Path, sources: Sources, **others: Any) -> LiveFold:
    return LiveFold(run, META, sources.made(**others), sources.clock, lambda: NOW_UNIX)


def test_while_nobody_asks_nothing_is_made_and_nothing_is_written(tmp_path: Path) -> None:
    sources = Sources(10)
    live(tmp_path, sources).look()
    assert sources.asked == sources.verdicts == 0
    assert list(tmp_path.iterdir()) == []


def test_who_asks_is_shown_the_run_as_it_is(tmp_path: Path) -> None:
    sources = Sources(40)
    request(tmp_path, NOW_UNIX - 3)
    live(tmp_path, sources).look()
    view = read_live(tmp_path)
    assert view is not None
    assert (view.run, view.state, view.steps) == ("mnist", RunState.RUNNING, 40)
    assert view.command == "python 'my train.py'"
    assert view.elapsed_s == 60.0
    assert view.since_step_s == pytest.approx(2.0)
    assert view.verdict == made_finding("input-cpu")
    assert sum(phase.share for phase in view.phases) == pytest.approx(1.0)
    assert {one.name for one in view.history} >= {"step time", "steps/s", "CPU", "memory"}
    assert view.used.memory_bytes == pytest.approx(1e9 + 49)
    assert [rank.steps for rank in view.ranks] == [40]


def test_before_the_first_step_there_is_a_view_too(tmp_path: Path) -> None:
    empty = LiveSources(list, lambda: None, ResourceFold, lambda: None)
    view = LiveFold(tmp_path, META, empty, lambda: 5, lambda: NOW_UNIX).view(NOW_UNIX)
    assert (view.steps, view.phases, view.history, view.verdict) == (0, (), (), None)
    assert view.state is RunState.RUNNING


def test_a_program_that_has_ended_is_said_to(tmp_path: Path) -> None:
    request(tmp_path, NOW_UNIX)
    live(tmp_path, Sources(10)).look(is_ending=True)
    view = read_live(tmp_path)
    assert view is not None
    assert view.state is RunState.ENDING


def test_the_outlook_is_part_of_it(tmp_path: Path) -> None:
    soon = Left(60.0, 50.0, 70.0)
    made = live(tmp_path, Sources(10), outlook=lambda: Outlook(soon, soon, 8e9))
    view = made.view(NOW_UNIX)
    assert view.ends == view.used.memory_full == soon
    assert view.used.memory_limit_bytes == 8e9


def test_a_verdict_that_takes_long_is_asked_for_seldom(tmp_path: Path) -> None:
    sources = Sources(10, took_ns=1_000 * MS)  # 2 % of the time: once in 50 s
    made = live(tmp_path, sources)
    for _ in range(90):
        made.view(NOW_UNIX)
        sources.clock.now_ns += 1_000 * MS
    assert sources.verdicts == 2


def test_a_verdict_that_takes_no_time_is_asked_for_every_ten_seconds(tmp_path: Path) -> None:
    sources = Sources(10)
    made = live(tmp_path, sources)
    for _ in range(100):
        made.view(NOW_UNIX)
        sources.clock.now_ns += 1_000 * MS
    assert sources.verdicts == 10


def test_values_of_the_program_are_kept_over_the_whole_run_in_few_points(tmp_path: Path) -> None:
    made = live(tmp_path, Sources(10))
    for step in range(20_000):
        made.reading(Reading(step * MS, "loss", 20_000.0 - step, step=step))
    (told,) = made.view(NOW_UNIX).told
    assert (told.name, told.value, told.step) == ("loss", 1.0, 19_999)
    assert len(told.points) <= LIVE_POINTS
    known = [point for point in told.points if point is not None]
    assert known == sorted(known, reverse=True)
    assert known[0] > 19_000
    assert known[-1] < 1_000


def test_a_loss_that_is_no_number_any_more_is_said_to_be_none(tmp_path: Path) -> None:
    made = live(tmp_path, Sources(10))
    made.reading(Reading(1, "loss", 2.0))
    made.reading(Reading(2, "loss", math.nan))
    (told,) = made.view(NOW_UNIX).told
    assert told.value is None
    assert told.points == (2.0,)


def test_metrics_of_the_table_and_of_other_ranks_are_not_the_programs_own(tmp_path: Path) -> None:
    made = live(tmp_path, Sources(10))
    made.reading(Reading(1, "memory_bytes", 2.0))
    made.reading(Reading(1, "loss", 2.0, rank=3))
    assert made.view(NOW_UNIX).told == ()


def test_a_program_that_tells_of_many_things_is_followed_in_some(tmp_path: Path) -> None:
    made = live(tmp_path, Sources(10))
    for number in range(1000):
        made.reading(Reading(1, f"metric {number}", 2.0))
    assert len(made.view(NOW_UNIX).told) == 12


@pytest.mark.parametrize("command", [None, 5, "python", [], {}])
def test_a_command_that_is_none_is_shown_as_none(command: Any) -> None:
    assert command_line({"command": command}) == ""


def test_a_command_line_without_end_is_cut() -> None:
    assert len(command_line({"command": ["x" * 10_000] * 10_000})) == 2000
