"""A monitor in a program looks at all steps, unless they are so quick that this would cost."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from stepscope.model import names
from stepscope.model.event import Batch
from stepscope.model.watching import StepSeen, StepsPassed
from stepscope.session.feeding import Feed
from stepscope.session.step_budget import StepBudget
from tests.unit.analyze.made import batch, span, training
from tests.unit.session.test_feeding import PROGRAM, Ear

S = 1_000_000_000


class Clocks:
    """Each look costs what it is told to."""

    def __init__(self, cost_ns: int) -> None:
        self.now_ns = self.cpu_ns = 0
        self._cost_ns = cost_ns

    def cpu(self) -> int:
        self.cpu_ns += self._cost_ns
        return self.cpu_ns

    def budget(self, interval_s: float = 1.0) -> StepBudget:
        return StepBudget(interval_s, self.cpu, lambda: self.now_ns)


def seconds_of_steps(second: int) -> Batch:
    """Ten steps, numbered as the recorder does: by the optimizer steps before."""
    events = training(10, at=1000.0 * second)
    numbered, number = [], 10 * second
    for event in events:
        numbered.append(event | {"step": number})
        number += event["name"] == names.OPTIMIZER_STEP
    return batch(numbered)


def watched(cost_ns: int, seconds: int) -> list[StepSeen]:
    clocks, ear = Clocks(cost_ns), Ear()
    feed = Feed(ear, budget=clocks.budget())
    for second in range(seconds):
        clocks.now_ns = second * S
        feed.update(PROGRAM, [seconds_of_steps(second)])
    return ear.steps


def test_where_it_costs_little_every_step_is_told() -> None:
    steps = watched(cost_ns=50_000, seconds=60)
    assert [one.number for one in steps] == list(range(1, len(steps) + 1))
    assert len(steps) >= 590


def test_where_it_would_cost_too_much_some_are_told_and_the_rest_is_counted() -> None:
    steps = watched(cost_ns=50_000_000, seconds=120)
    assert 20 <= len(steps) < 300
    for seen in steps:
        assert seen.duration_ns == S // 10, "none with a gap in it"
        assert seen.number == seen.end_ns // (S // 10), "by the number it has in the run"
    pauses_s = [(b.start_ns - a.end_ns) / 1e9 for a, b in pairwise(steps)]
    assert max(pauses_s) <= 21


def test_all_steps_are_counted_up_to_now() -> None:
    clocks, ear = Clocks(50_000_000), Ear()
    feed = Feed(ear, budget=clocks.budget())
    for second in range(64):
        clocks.now_ns = second * S
        feed.update(PROGRAM, [seconds_of_steps(second)])
    assert 640 - 10 <= ear.steps[-1].number + feed.untold_steps <= 640


def test_a_monitor_hears_when_the_last_step_ended_that_was_passed_by() -> None:
    class PassedEar(Ear):
        def __init__(self) -> None:
            super().__init__()
            self.passed_by: list[StepsPassed] = []

        def passed(self, steps: StepsPassed) -> None:
            self.passed_by.append(steps)

    clocks, ear = Clocks(50_000_000), PassedEar()
    feed = Feed(ear, budget=clocks.budget())
    for second in range(30):
        clocks.now_ns = second * S
        feed.update(PROGRAM, [seconds_of_steps(second)])
        if second > 2 and second != 19:  # when some are looked at
            last = ear.passed_by[-1]
            assert last.end_ns == (second + 1) * S
            assert 10 * (second + 1) - 10 <= last.number <= 10 * (second + 1)


def test_several_optimizers_in_a_row_are_one_step_where_they_are_passed_by_too() -> None:
    clocks, ear = Clocks(50_000_000), Ear()
    feed = Feed(ear, budget=clocks.budget())
    for second in range(64):
        clocks.now_ns = second * S
        both = []
        for at in range(10):
            began, number = 1000.0 * second + 100.0 * at, 20 * second + 2 * at
            events = (
                span(names.FORWARD, began, began + 40),
                span(names.BACKWARD, began + 40, began + 80),
                span(names.OPTIMIZER_STEP, began + 80, began + 85, arg=1),
                span(names.OPTIMIZER_STEP, began + 85, began + 90, arg=2) | {"step": number + 1},
            )
            both += [{"step": number} | event for event in events]
        feed.update(PROGRAM, [batch(both)])
    assert 640 - 10 <= ear.steps[-1].number + feed.untold_steps <= 640


def test_rates_are_of_steps_in_a_row() -> None:
    clocks, ear = Clocks(50_000_000), Ear()
    feed = Feed(ear, budget=clocks.budget())
    for second in range(120):
        clocks.now_ns = second * S
        feed.update(PROGRAM, [seconds_of_steps(second)])
    assert set(ear.values("steps_per_second")) <= {10.0}
    assert ear.values("steps_per_second")


def test_at_least_some_whole_steps_are_looked_at_in_a_row() -> None:
    clocks = Clocks(S)
    budget = clocks.budget()
    with budget:
        pass
    assert budget.rows(5000, rows_per_step=6.0) == 0
    clocks.now_ns = 20 * S
    assert budget.rows(5000, rows_per_step=6.0) == 48
    clocks.now_ns = 40 * S
    assert budget.rows(5000, rows_per_step=300.0) == 1200
    clocks.now_ns = 60 * S
    assert budget.rows(30, rows_per_step=6.0) == 30


def test_who_samples_more_often_may_cost_more() -> None:
    """Three hundred events took 6 ms, which is what may be spent at once: 20 µs each."""
    for interval_s, rows in ((1.0, 300), (0.1, 3000), (0.001, 20_000)):
        clocks = Clocks(6_000_000)
        budget = clocks.budget(interval_s)
        assert budget.rows(300, rows_per_step=6.0) == 300
        with budget:
            pass
        clocks.now_ns = 100 * S
        assert budget.rows(1_000_000, rows_per_step=6.0) == rows, interval_s


def test_of_a_large_batch_as_much_is_looked_at_as_there_is_to_spend() -> None:
    clocks = Clocks(3_000_000)
    budget = clocks.budget()
    assert budget.rows(100, rows_per_step=5.0) == 100
    with budget:  # 30 µs an event
        pass
    assert budget.rows(10_000, rows_per_step=5.0) == 100, "the other half of what there is at first"
    with budget:
        pass
    assert budget.rows(10_000, rows_per_step=5.0) == 0
    clocks.now_ns = 9 * S  # 0.54 ms were saved up since: 18 events
    assert budget.rows(10_000, rows_per_step=5.0) == 0, "too few to see whole steps in a row"
    assert budget.rows(18, rows_per_step=5.0) == 18, "as many as there are"
    clocks.now_ns = 27 * S
    assert budget.rows(10_000, rows_per_step=5.0) == 54


def test_a_few_events_do_not_tell_that_all_cost_next_to_nothing() -> None:
    clocks = Clocks(1)
    budget = clocks.budget()
    assert budget.rows(10, rows_per_step=5.0) == 10
    with budget:
        pass
    assert budget.rows(100_000, rows_per_step=5.0) == 400, "6 ms at 15 µs"


def test_a_process_that_began_before_a_step_that_was_passed_by_is_no_successor() -> None:
    clocks, ear = Clocks(50_000_000), Ear()
    feed = Feed(ear, budget=clocks.budget())
    for second in range(16):
        clocks.now_ns = second * S
        feed.update(PROGRAM, [seconds_of_steps(second)])
    assert ear.steps[-1].end_ns < 5 * S, "the others were passed by"
    beside = replace(PROGRAM, pid=8, monotonic_ns=10 * S)
    clocks.now_ns = 60 * S
    feed.update(beside, [seconds_of_steps(60)])
    assert max(seen.end_ns for seen in ear.steps) < 16 * S, "it is still the first one's rank"
