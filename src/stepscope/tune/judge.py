"""Whether a change makes a program faster, from the times of its runs.

Runs are the units, not steps: steps of one run share its luck. Looking several times at runs as
they come in makes a false alarm likelier each time, so the interval is wide enough for all looks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from stepscope.model.trial import Measurement, Speedup, Verdict
from stepscope.stats.welch import welch_ratio

__all__ = ["LEAST_GAIN", "LOOKS", "is_noisy", "judge"]

LOOKS: Final = (2, 3, 5, 8)  # runs an arm
LEAST_GAIN: Final = 1.03  # less is not worth a change
_CONFIDENCE: Final = 1.0 - 0.05 / len(LOOKS)
_ENOUGH: Final = 3  # runs, from which on a change that shows no gain is given up
_HOPELESS: Final = (0.8, 0.97)  # speed-up after one and two runs that is not tried further
_FOREIGN_CORES: Final = 0.3
_PRESSURE: Final = 0.05


def judge(
    base_s: Sequence[float], changed_s: Sequence[float], least_gain: float = LEAST_GAIN
) -> tuple[Verdict, Speedup | None]:
    """Of the times of a step, a run each. The speed-up is None where there are too few runs.

    >>> judge([10.0, 10.1, 9.9], [5.0, 5.1, 4.9])[0].value
    'faster'
    >>> judge([10.0, 10.1, 9.9], [10.0, 9.9, 10.1])[0].value
    'no gain'
    """
    test = welch_ratio(changed_s, base_s, _CONFIDENCE)
    if test is None:
        hopeless = bool(base_s and changed_s) and base_s[0] / changed_s[0] < _HOPELESS[0]
        return (Verdict.NO_GAIN if hopeless else Verdict.INCONCLUSIVE), None
    speedup = Speedup(test.middle, test.low, test.high)
    if speedup.is_proved(least_gain):
        return Verdict.FASTER, speedup
    if speedup.high < least_gain or speedup.middle < _HOPELESS[1]:
        return Verdict.NO_GAIN, speedup
    runs = min(len(base_s), len(changed_s))
    if runs >= _ENOUGH and speedup.middle < 1.0 + (least_gain - 1.0) / 3:
        return Verdict.NO_GAIN, speedup  # what is there, if anything, is not worth more runs
    return Verdict.INCONCLUSIVE, speedup


def is_noisy(run: Measurement) -> bool:
    """Others used the machine, and something waited for a CPU: it says little about the program."""
    waited = run.pressure is None or run.pressure >= _PRESSURE
    return run.foreign_cores >= _FOREIGN_CORES and waited
