"""What processes record reaches a monitor as steps and readings."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from stepscope.model import names
from stepscope.model.process import ProcessInfo
from stepscope.model.watching import Reading, StepSeen
from stepscope.session import feeding
from stepscope.session.feeding import Feed
from stepscope.session.machine_speed import MachineSpeed
from tests.unit.analyze.made import Event, batch, in_eval, iter_, mark, sample, span, step, training

PROGRAM = ProcessInfo(7, 1, 0, 1, "here", "program", (), "3.11", "native", 0, 0)
LAUNCHER = replace(PROGRAM, pid=5, role="launcher")


class Ear:
    def __init__(self) -> None:
        self.steps: list[StepSeen] = []
        self.readings: list[Reading] = []

    def step(self, seen: StepSeen) -> None:
        self.steps.append(seen)

    def reading(self, reading: Reading) -> None:
        self.readings.append(reading)

    def values(self, metric: str, rank: int = 0) -> list[float]:
        found = [one for one in self.readings if (one.metric, one.rank) == (metric, rank)]
        return [one.value for one in found]


def fed(*events: Event, process: ProcessInfo = PROGRAM) -> Ear:
    ear = Ear()
    Feed(ear).update(process, [batch(events)])
    return ear


def test_steps_come_in_order_with_their_phases_which_add_up() -> None:
    ear = fed(*training(20))
    assert [one.number for one in ear.steps] == list(range(1, len(ear.steps) + 1))
    assert len(ear.steps) >= 14
    second = ear.steps[1]
    assert second.phases_ns["input wait"] == 30_000_000
    assert sum(second.phases_ns.values()) == second.duration_ns == 100_000_000
    assert not second.is_special
    assert ear.values("steps_per_second")[-1] == 10.0


def test_how_fast_the_machine_is_reaches_whoever_asks_for_it() -> None:
    """Of a batch that has many, their median."""
    speed, ear = MachineSpeed(), Ear()
    feed = Feed(speed, ear)
    for second in range(8):
        takes_ns = 20_000.0 if second < 4 else 30_000.0
        at_ms = 1000.0 * second
        events = [sample(names.REFERENCE_NS, at_ms + k, takes_ns + 100.0 * k) for k in range(5)]
        feed.update(PROGRAM, [batch(events)])
    assert ear.values("reference_seconds") == [2.02e-5] * 4 + [3.02e-5] * 4
    assert speed.ratio(0, 4_000_000_000) == pytest.approx(3.02 / 2.02)


def test_where_the_machine_is_timed_less_often_every_time_is_told() -> None:
    ear = fed(sample(names.REFERENCE_NS, 0.0, 20_000.0), sample(names.REFERENCE_NS, 5000.0, 3e4))
    assert ear.values("reference_seconds") == [2e-5, 3e-5]


def test_evaluation_saves_and_starts_of_workers_set_a_step_apart() -> None:
    events = [
        *training(3),
        span(names.SAVE, 300, 310),
        *step(310),
        *step(410),
        iter_(510, 515),
        *step(515),
        *step(615),
        in_eval(720, 760),
        *step(760),
        *training(12, at=900),
    ]
    ear = fed(*events)
    assert [one.number for one in ear.steps if one.is_special] == [4, 6, 8]


def test_losses_and_the_programs_own_metrics_keep_their_step() -> None:
    loss = sample(names.LOSS, 4, math.nan) | {"step": 3}
    own = sample(names.METRIC, 5, 0.25, arg=-1) | {"text": "accuracy", "step": 3}
    counted = sample(names.METRIC, 6, 0.5, arg=300) | {"text": "rate", "step": 3}
    ear = fed(loss, own, counted)
    found = [(one.metric, one.step) for one in ear.readings]
    assert found == [("loss", 3), ("accuracy", 3), ("rate", 300)]
    assert math.isnan(ear.readings[0].value)


def test_of_collections_the_longest_is_told() -> None:
    ear = fed(span(names.GC, 0, 3), span(names.GC, 10, 15), span(names.GC, 20, 21))
    assert ear.values("gc_pause_seconds") == [0.005]


def test_events_that_were_lost_add_up_over_the_processes_of_a_rank() -> None:
    ear, worker = Ear(), replace(PROGRAM, pid=8)
    feed = Feed(ear)
    feed.update(PROGRAM, [batch([sample(names.OWN_DROPPED, 0, 5)])])
    feed.update(worker, [batch([sample(names.OWN_DROPPED, 1, 2), sample(names.OWN_LOST, 1, 1)])])
    feed.update(PROGRAM, [batch([sample(names.OWN_DROPPED, 2, 5)])])
    assert ear.values("events_lost_total") == [5, 8]


def test_the_machine_is_sampled_by_the_launcher_where_there_is_one() -> None:
    held = sample(names.PROCESS_RSS_BYTES, 1, 1e9, PROGRAM.pid)
    inside, outside = Ear(), Ear()
    for ear, has_launcher in ((inside, False), (outside, True)):
        feed = Feed(ear, has_launcher=has_launcher)
        feed.update(PROGRAM, [batch([held])])
        feed.update(LAUNCHER, [batch([held | {"value": 2e9}])])
    assert inside.values("memory_bytes") == [1e9]
    assert outside.values("memory_bytes") == [2e9]


def test_ranks_are_told_apart_also_in_what_the_launcher_samples() -> None:
    ear = Ear()
    feed = Feed(ear, has_launcher=True)
    for rank in (0, 1):
        process = replace(PROGRAM, pid=20 + rank, rank=rank)
        feed.update(process, [batch(training(20))])
    sampled = [sample(names.PROCESS_RSS_BYTES, 1, 1e9 * (pid - 19), pid) for pid in (20, 21, 99)]
    feed.update(LAUNCHER, [batch(sampled)])
    assert ear.values("memory_bytes", rank=0) == [1e9]
    assert ear.values("memory_bytes", rank=1) == [2e9], "and a stranger's is nobody's"
    assert {one.rank for one in ear.steps} == {0, 1}


def test_of_two_processes_that_train_as_one_rank_the_first_is_told_of_until_it_ends() -> None:
    ear, second = Ear(), replace(PROGRAM, pid=8)
    feed = Feed(ear)
    feed.update(PROGRAM, [batch(training(20))])
    told = len(ear.steps)
    feed.update(second, [batch(training(20))])
    assert len(ear.steps) == told
    feed.update(PROGRAM, [batch([mark(names.PROCESS_EXIT, 2100, text="at its end")])])
    feed.update(second, [batch(training(20, at=2000))])
    assert len(ear.steps) > told


def test_workers_that_were_killed_do_not_pile_up() -> None:
    ear = Ear()
    feed = Feed(ear)
    feed.update(PROGRAM, [batch(training(20))])
    told = len(ear.steps)
    for pid in range(feeding._MOST_PROCESSES + 100):
        feed.update(replace(PROGRAM, pid=1000 + pid), [])
    assert len(feed._processes) == feeding._MOST_PROCESSES
    feed.update(PROGRAM, [batch(training(5, at=2000))])
    assert len(ear.steps) > told, "who trains is kept"


def test_a_forked_child_begins_anew() -> None:
    ear = Ear()
    feed = Feed(ear)
    feed.update(PROGRAM, [batch(training(20))])
    feed.after_fork()
    feed.update(replace(PROGRAM, pid=8), [batch(training(20, at=9000))])
    assert [one.number for one in ear.steps].count(1) == 2


def test_steps_that_were_looked_at_closely_are_set_apart() -> None:
    begin = mark(names.CAPTURE_BEGIN, 350, 1, "{}")
    end = mark(names.CAPTURE_END, 520, 1, "{}")
    ear = fed(*training(20), begin, end)
    special = [one.number for one in ear.steps if one.is_special]
    assert special == [4, 5, 6]


class Farewell(Ear):
    def __init__(self) -> None:
        super().__init__()
        self.gone: list[int] = []

    def left(self, rank: int) -> None:
        self.gone.append(rank)


def test_a_process_that_was_started_again_takes_the_place_of_one_that_was_killed() -> None:
    ear = Farewell()
    feed = Feed(ear)
    feed.update(PROGRAM, [batch(training(20))])
    told = len(ear.steps)
    later = 10_000  # ms after the first: it was killed, and said no farewell
    again = replace(PROGRAM, pid=8, monotonic_ns=later * 1_000_000)
    events = [
        event | {"time_ns": int(event["time_ns"]) + later * 1_000_000} for event in training(20)
    ]
    feed.update(again, [batch(events)])
    assert len(ear.steps) == 2 * told
    assert ear.gone == [0]


def test_a_process_beside_the_one_that_trains_is_not_told_of() -> None:
    ear = Farewell()
    feed = Feed(ear)
    feed.update(PROGRAM, [batch(training(20))])
    told = len(ear.steps)
    feed.update(replace(PROGRAM, pid=8), [batch(training(20))])
    assert len(ear.steps) == told
    assert ear.gone == []


def test_who_listens_hears_that_a_process_has_ended() -> None:
    ear = Farewell()
    Feed(ear).update(PROGRAM, [batch([*training(20), mark(names.PROCESS_EXIT, 3000, text="-")])])
    assert ear.gone == [0]
