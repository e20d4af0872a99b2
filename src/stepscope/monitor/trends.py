"""Where memory and throughput are going, and when the run is going to be over."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

from stepscope.stats.forecast import Forecast, LimitForecast
from stepscope.stats.student import student_t

__all__ = ["Estimate", "Outlook", "end_estimate"]

_RECENT_S: Final = 1800.0  # a run of weeks: growth that began late shows in its last hour, or half


class Outlook:
    """When something that grows reaches a limit, by all of the run and by its last hour.

    By the last hour only while it is higher than ever: what it comes down from again is a sawtooth
    with long teeth.
    """

    def __init__(self) -> None:
        self._all = LimitForecast()
        self._older: _Stretch | None = None
        self._younger = _Stretch(-math.inf, -math.inf)
        self.peak = -math.inf
        self._last_s = -math.inf
        self._first_s = math.inf
        self.last: float | None = None

    def update(self, time_s: float, value: float) -> None:
        if self.last is None:
            self._first_s = time_s
            self._younger = _Stretch(time_s, -math.inf)
        elif time_s - self._younger.began_s >= _RECENT_S:
            self._older, self._younger = self._younger, _Stretch(time_s, self.peak)
        self._all.update(time_s, value)
        self._younger.forecast.update(time_s, value)
        if self._older is not None:
            self._older.forecast.update(time_s, value)
        self.peak = max(self.peak, value)
        self.last, self._last_s = value, max(time_s, self._last_s)

    @property
    def watched_s(self) -> float:
        """From the first value to the last."""
        return max(0.0, self._last_s - self._first_s)

    def get(self, limit: float) -> Forecast | None:
        """The soonest; None: it is not going there, or that cannot be told. Some ms of work."""
        found = [self._all.get(limit)]
        if (
            self._older is not None
            and self.last is not None
            and self.last > self._older.peak_before
        ):
            found.append(self._older.forecast.get(limit))
        return min((one for one in found if one is not None), default=None)


class _Stretch:
    """A part of the run, up to now. peak_before: the highest before it."""

    def __init__(self, began_s: float, peak_before: float) -> None:
        self.began_s, self.peak_before = began_s, peak_before
        self.forecast = LimitForecast()


class Estimate(NamedTuple):
    """Seconds until something is over, which lie between low_s and high_s (95 %)."""

    seconds: float
    low_s: float
    high_s: float


def end_estimate(
    steps_done: int, total_steps: int | None, seconds_per_step: Sequence[float]
) -> Estimate | None:
    """When the run is over; None where nobody said how many steps it has, or none were measured.

    seconds_per_step: of several stretches of the run, equally long and with all that lay between
    steps. What is to come differs from them as they do among each other.

    >>> end_estimate(100, 300, [1.0, 1.2, 0.8])
    Estimate(seconds=200.0, low_s=..., high_s=...)
    """
    if total_steps is None or not seconds_per_step or total_steps < steps_done:
        return None
    left = total_steps - steps_done
    count = len(seconds_per_step)
    mean_s = math.fsum(seconds_per_step) / count
    if count < 2 or steps_done <= 0:
        return Estimate(left * mean_s, 0.0, math.inf) if left else Estimate(0.0, 0.0, 0.0)
    variance = math.fsum((one - mean_s) ** 2 for one in seconds_per_step) / (count - 1)
    stretches_left = left * count / steps_done
    if not stretches_left:
        return Estimate(0.0, 0.0, 0.0)
    error_s = math.sqrt(variance * (1.0 / count + 1.0 / stretches_left))
    half_s = left * student_t(count - 1) * error_s
    return Estimate(left * mean_s, max(0.0, left * mean_s - half_s), left * mean_s + half_s)
