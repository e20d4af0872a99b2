from __future__ import annotations

import pytest

from stepscope.model.watching import Reading
from stepscope.session.machine_speed import MachineSpeed

SECOND = 1_000_000_000


def speed(values: list[float], rank: int = 0) -> MachineSpeed:
    made = MachineSpeed()
    for second, value in enumerate(values):
        made.reading(Reading(second * SECOND, "reference_seconds", value, rank=rank))
    return made


def test_a_machine_that_became_slower_is_told_by_how_much() -> None:
    known = speed([1e-5] * 10 + [2e-5] * 5)
    assert known.ratio(0, 10 * SECOND) == pytest.approx(2.0)


def test_single_odd_readings_change_nothing() -> None:
    known = speed([1e-5] * 10 + [1e-5, 9e-5, 1e-5])
    assert known.ratio(0, 10 * SECOND) == pytest.approx(1.0)


def test_too_few_readings_tell_nothing() -> None:
    known = speed([1e-5] * 10)
    assert known.ratio(0, 8 * SECOND) is None
    assert known.ratio(1, 5 * SECOND) is None


def test_other_metrics_are_passed_by() -> None:
    known = MachineSpeed()
    for second in range(10):
        known.reading(Reading(second * SECOND, "loss", 1.0))
    assert known.ratio(0, 5 * SECOND) is None
