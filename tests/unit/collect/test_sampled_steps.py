"""Which steps are sampled, under a clock of our own."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from stepscope.collect.sampled import PACES, STEP_NS, STRANGE_STEPS, Pace, SampledSteps
from stepscope.collect.watch import Watch
from stepscope.model import names
from stepscope.record.recorder import Recorder
from stepscope.record.twin import TwinCore
from tests.unit.collect.conftest import Read

MS = 1_000_000


class Clock:
    now_ns = 0

    def __call__(self) -> int:
        return self.now_ns


class Costs:
    """A sampler that costs so much each time."""

    name: ClassVar[str] = "costs"

    def __init__(self, ns: int = 0) -> None:
        self.ns = ns
        self.begun = self.dropped = 0

    def begin_step(self) -> None:
        self.begun += 1

    def end_step(self) -> int:
        return self.ns

    def drop_step(self) -> None:
        self.dropped += 1


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def recorder(clock: Clock) -> Recorder:
    core: Any = TwinCore(clock)
    return Recorder(core)


def run(
    recorder: Recorder, clock: Clock, steps: SampledSteps, sampler: Costs, count: int, ms: float
) -> list[int]:
    """The steps that were sampled, of `count` that take `ms` each."""
    found = []
    optimizer = object()
    steps.start(recorder)
    for step in range(1, count + 1):
        clock.now_ns += int(ms * MS)
        before = sampler.begun
        steps.after_step(optimizer)
        if sampler.begun > before:
            found.append(step + 1)
    return found


@pytest.mark.parametrize("level", ["basic", "detailed", "comprehensive"])
@pytest.mark.parametrize("cost_ms", [0.2, 3.0])
def test_what_it_costs_stays_within_the_share(
    level: str, cost_ms: float, recorder: Recorder, clock: Clock
) -> None:
    pace = PACES[level]
    assert pace is not None
    sampler = Costs(int(cost_ms * MS))
    steps = SampledSteps(Watch(), pace, (sampler,))

    found = run(recorder, clock, steps, sampler, 3000, 5)

    assert found
    assert len(found) <= pace.most
    assert min(found) > pace.first
    assert len(found) * cost_ms <= pace.share * 3000 * 5 + cost_ms


def test_the_samples_are_spread_over_the_run(recorder: Recorder, clock: Clock) -> None:
    sampler = Costs(1000)
    steps = SampledSteps(Watch(), PACES["basic"], (sampler,))

    found = run(recorder, clock, steps, sampler, 1000, 100)

    assert found[:2] == [6, 9]  # the first that may be; 1.6 times as far
    assert 10 <= len(found) <= 12
    assert found[-1] > 500


def test_a_dear_first_sample_waits_until_it_can_be_paid(recorder: Recorder, clock: Clock) -> None:
    sampler = Costs()
    steps = SampledSteps(Watch(), Pace(0.01, 2, 1.0, 1), (sampler,))

    (found,) = run(recorder, clock, steps, sampler, 1000, 1)

    assert found == pytest.approx(STEP_NS / 0.01 / MS, abs=2)


def test_production_samples_nothing(recorder: Recorder, clock: Clock) -> None:
    sampler = Costs()
    assert run(recorder, clock, SampledSteps(Watch(), None, (sampler,)), sampler, 500, 100) == []


def test_an_optimizer_that_is_gone_is_not_waited_for(recorder: Recorder, clock: Clock) -> None:
    sampler = Costs()
    steps = SampledSteps(Watch(), Pace(1e9, 1, 1.0, 100), (sampler,))
    run(recorder, clock, steps, sampler, 2, 5)
    begun = sampler.begun

    other = object()
    for _ in range(STRANGE_STEPS + 4):
        clock.now_ns += MS
        steps.after_step(other)

    assert sampler.begun > begun


def test_a_sampler_that_fails_is_counted_and_the_others_go_on(
    recorder: Recorder, clock: Clock, read: Read
) -> None:
    class Fails(Costs):
        def begin_step(self) -> None:
            raise KeyError("ours")

    good = Costs(7)
    steps = SampledSteps(Watch(), Pace(1e9, 1, 1.0, 2), (Fails(), good))

    assert run(recorder, clock, steps, good, 8, 5)
    assert recorder.failures == {"costs": 2}
    assert [row.value for row in read(names.OWN_SAMPLED_NS)] == [7.0, 14.0]


def test_stopping_leaves_the_step_that_is_looked_at(recorder: Recorder, clock: Clock) -> None:
    sampler = Costs()
    steps = SampledSteps(Watch(), Pace(1e9, 1, 1.0, 2), (sampler,))
    run(recorder, clock, steps, sampler, 2, 5)

    steps.stop()

    assert (sampler.begun, sampler.dropped) == (1, 1)
