from __future__ import annotations

import math

import pytest

from stepscope.model.trial import Measurement, Outcome
from stepscope.tune.results import distance, limits, why_apart

LOSSES = tuple(2.0 - 0.01 * step for step in range(100))


def run(losses: tuple[float, ...], dtype: str = "float32") -> Measurement:
    return Measurement(Outcome.MEASURED, losses=losses, dtype=dtype)


def why_not_same(base: list[Measurement], other: Measurement) -> str:
    return why_apart(base[0], other, limits(base))


def shifted(by: float) -> tuple[float, ...]:
    return tuple(loss * (1 + by) for loss in LOSSES)


@pytest.mark.parametrize(
    ("dtype", "by", "same"),
    [
        ("float32", 1e-5, True),
        ("float32", 1e-2, False),
        ("float64", 1e-5, False),
        ("float64", 1e-12, True),
        ("bfloat16", 1e-2, True),
    ],
)
def test_how_far_losses_may_lie_apart_depends_on_the_dtype(
    dtype: str, by: float, same: bool
) -> None:
    assert (why_not_same([run(LOSSES, dtype)], run(shifted(by))) == "") is same


def test_a_program_whose_own_runs_differ_is_held_to_that() -> None:
    base = [run(LOSSES), run(shifted(0.01))]
    assert why_not_same(base, run(shifted(0.02))) == ""
    assert why_not_same(base, run(shifted(0.1)))


def test_losses_that_drift_apart_late_are_found_too() -> None:
    drifting = LOSSES[:50] + tuple(2 * loss for loss in LOSSES[50:])
    assert "losses differ" in why_not_same([run(LOSSES)], run(drifting))


def test_a_loss_that_is_no_number_any_more_is_found() -> None:
    assert why_not_same([run(LOSSES)], run((*LOSSES[:5], math.nan, *LOSSES[6:])))


def test_a_program_that_tells_no_losses_is_not_held_to_any() -> None:
    assert distance((), LOSSES) is None
    assert why_not_same([run(())], run(())) == ""
