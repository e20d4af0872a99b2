"""Whoever wants each step by itself is told of it once, as soon as it is known."""

from __future__ import annotations

from stepscope.analyze.fold import HELD, NO_DEVICE, LoopFold
from stepscope.analyze.phases import StepTime
from stepscope.analyze.tally import Step
from stepscope.model import names
from tests.unit.analyze.made import MS, batch, span, step

_STEPS = NO_DEVICE + 10


def followed() -> tuple[LoopFold, list[tuple[int, int, int]]]:
    told: list[tuple[int, int, int]] = []

    def on_step(done: Step, time: StepTime) -> None:
        told.append((done.start_ns // MS, done.end_ns // MS, sum(time.wall_ns) // MS))

    return LoopFold(on_step=on_step), told


def test_every_step_is_told_once_in_order_and_asking_for_the_loop_tells_none() -> None:
    fold, told = followed()
    for number in range(_STEPS):
        fold.update(batch(step(100.0 * number)))
        fold.get()
    assert told == [(100 * n, 100 * n + 100, 100) for n in range(len(told))]
    assert len(told) >= _STEPS - 2, "the last one may go on, and one more is under way"


def test_the_first_steps_wait_for_what_a_device_may_say_and_later_ones_do_not() -> None:
    fold, told = followed()
    behind = []
    for number in range(_STEPS):
        fold.update(batch(step(100.0 * number)))
        behind.append(number + 1 - len(told))
    assert max(behind[: NO_DEVICE - 1]) > HELD
    assert max(behind[-5:]) <= 2


def test_where_a_device_tells_of_its_work_steps_wait_for_it_all_along() -> None:
    fold, told = followed()
    for number in range(_STEPS):
        at = 100.0 * number
        device = span(names.DEVICE_PREFIX + names.FORWARD, at + 41, at + 61, track=9)
        fold.update(batch([*step(at), device]))
    assert _STEPS - len(told) > HELD
