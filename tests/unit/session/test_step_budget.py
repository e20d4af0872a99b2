"""A monitor in a program looks at all steps, unless they are so quick that this would cost."""

from __future__ import annotations

from itertools import pairwise

from stepscope.model.event import Batch
from stepscope.model.watching import StepSeen
from stepscope.session.feeding import Feed
from stepscope.session.step_budget import StepBudget
from tests.unit.analyze.made import batch, training
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
    return batch(training(10, at=1000.0 * second))


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
    assert max(pauses_s) <= 12, "never so long that it would pass for a stall"


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
    clocks.now_ns = 11 * S
    assert budget.rows(5000, rows_per_step=6.0) == 64
    clocks.now_ns = 22 * S
    assert budget.rows(5000, rows_per_step=300.0) == 1200
    clocks.now_ns = 33 * S
    assert budget.rows(50, rows_per_step=6.0) == 50


def test_who_samples_more_often_may_cost_more() -> None:
    for interval_s, allowed_ns in ((1.0, 10_000_000), (0.1, 100_000_000), (0.001, 400_000_000)):
        for spent_ns, rows in ((allowed_ns - S // 1000, 50), (allowed_ns + S // 10, 0)):
            clocks = Clocks(spent_ns)
            budget = clocks.budget(interval_s)
            clocks.now_ns = 91 * S
            assert budget.rows(50, rows_per_step=6.0) == 50
            clocks.now_ns = 100 * S
            with budget:
                pass
            assert budget.rows(50, rows_per_step=6.0) == rows, interval_s
