from __future__ import annotations

import pytest

from stepscope.model.trial import Measurement, Outcome, Verdict
from stepscope.tune.judge import is_noisy, judge


@pytest.mark.parametrize(
    ("base_s", "changed_s", "expected"),
    [
        ([1.0, 1.01, 0.99], [0.8, 0.81, 0.79], Verdict.FASTER),
        ([1.0, 1.01], [0.5, 0.505], Verdict.FASTER),
        ([1.0, 1.1, 0.9], [0.95, 1.05, 0.85], Verdict.INCONCLUSIVE),
        ([1.0, 1.01, 0.99], [0.995, 1.005, 0.99], Verdict.NO_GAIN),
        ([1.0, 1.01, 0.99], [1.2, 1.21, 1.19], Verdict.NO_GAIN),
        ([1.0], [0.5], Verdict.INCONCLUSIVE),
        ([1.0], [1.5], Verdict.NO_GAIN),
        ([], [], Verdict.INCONCLUSIVE),
    ],
)
def test_runs_decide(base_s: list[float], changed_s: list[float], expected: Verdict) -> None:
    assert judge(base_s, changed_s)[0] is expected


def test_the_speed_up_is_how_many_times_as_fast() -> None:
    _, speedup = judge([2.0, 2.0, 2.0], [1.0, 1.0, 1.0])
    assert speedup is not None
    assert speedup.middle == pytest.approx(2.0)


@pytest.mark.parametrize(
    ("cores", "pressure", "noisy"),
    [(0.1, 0.9, False), (0.5, 0.0, False), (0.5, 0.2, True), (0.5, None, True)],
)
def test_a_run_is_noisy_when_others_ran_and_somebody_waited(
    cores: float, pressure: float | None, noisy: bool
) -> None:
    run = Measurement(Outcome.MEASURED, foreign_cores=cores, pressure=pressure)
    assert is_noisy(run) is noisy
