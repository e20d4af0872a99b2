"""The detectors that are compared: each is told step times and says when steps became slower."""

from __future__ import annotations

import importlib
import math
from collections import deque
from collections.abc import Callable, Sequence
from itertools import pairwise
from statistics import fmean, median
from typing import Any, Protocol

from stepscope.stats.slowdown import SlowdownDetector

FIRST = 50  # steps from which those rivals that need a scale or a level take it


class Detector(Protocol):
    """is_slow: from the update that raises an alarm on; whoever cannot tell the end of a slow-down
    says so for one update only."""

    is_slow: bool

    def update(self, value: float) -> None: ...


class ThreeSigma:
    """A step is slow that is three standard deviations above the moving average."""

    def __init__(self) -> None:
        self.is_slow = False
        self._mean: float | None = None
        self._variance = 0.0
        self._count = 0

    def update(self, value: float) -> None:
        self._count += 1
        if self._mean is None:
            self._mean = value
        away = value - self._mean
        self.is_slow = self._count > FIRST and away > 3.0 * math.sqrt(self._variance)
        self._mean += 0.05 * away
        self._variance = 0.95 * (self._variance + 0.05 * away * away)


class MedianRatio:
    """The median of 15 steps against that of the 200 before them: 5 % more is slow."""

    def __init__(self) -> None:
        self.is_slow = False
        self._values: deque[float] = deque(maxlen=215)

    def update(self, value: float) -> None:
        self._values.append(value)
        values = list(self._values)
        if len(values) >= FIRST + 15:
            self.is_slow = median(values[-15:]) > 1.05 * median(values[:-15])


class _Scaled:
    """Tells a detector of a library the steps in units of the run's own first ones: their
    thresholds are absolute."""

    def __init__(self) -> None:
        self.is_slow = False
        self._first: list[float] = []
        self._unit = 0.0

    def update(self, value: float) -> None:
        self.is_slow = False
        if len(self._first) < FIRST:
            self._first.append(value)
            self._unit = median(self._first)
        else:
            self.is_slow = self.drifts(value / self._unit)

    def drifts(self, value: float) -> bool:
        raise NotImplementedError


class Adwin(_Scaled):
    """river's ADWIN, as it comes."""

    def __init__(self) -> None:
        super().__init__()
        self._detector: Any = importlib.import_module("river.drift").ADWIN()

    def drifts(self, value: float) -> bool:
        before = self._detector.estimation
        self._detector.update(value)
        return bool(self._detector.drift_detected) and self._detector.estimation > before


class PageHinkley(_Scaled):
    """river's Page-Hinkley test. As it comes it waits for a sum of 50 whole steps' time."""

    def __init__(self, **settings: float) -> None:
        super().__init__()
        drift = importlib.import_module("river.drift")
        self._detector: Any = drift.PageHinkley(mode="up", **settings)

    def drifts(self, value: float) -> bool:
        self._detector.update(value)
        return bool(self._detector.drift_detected)


class Ruptures(_Scaled):
    """ruptures' PELT on the last 100 steps, every five: slow where the last stretch is higher."""

    EVERY, WINDOW = 5, 100

    def __init__(self) -> None:
        super().__init__()
        self._ruptures: Any = importlib.import_module("ruptures")
        self._numpy: Any = importlib.import_module("numpy")
        self._values: deque[float] = deque(maxlen=self.WINDOW)
        self._count = 0
        self._was_slow = False

    def drifts(self, value: float) -> bool:
        self._count += 1
        self._values.append(value)
        if self._count % self.EVERY == 0 and len(self._values) == self.WINDOW:
            self._was_slow = self._last_is_higher(list(self._values))
        return self._was_slow

    def _last_is_higher(self, values: Sequence[float]) -> bool:
        steps = [abs(b - a) for a, b in pairwise(values)]
        noise = max(1e-6, 1.4826 * median(steps) / math.sqrt(2.0))
        search = self._ruptures.KernelCPD(kernel="linear", min_size=5)
        search.fit(self._numpy.asarray(values))
        cuts = [0, *search.predict(pen=3.0 * noise**2 * math.log(len(values)))]
        if len(cuts) < 3:
            return False
        levels = [fmean(values[a:b]) for a, b in pairwise(cuts)]
        return levels[-1] > 1.025 * levels[-2]


RIVALS: dict[str, Callable[[], Detector]] = {
    "stepscope": SlowdownDetector,
    "3σ (moving average)": ThreeSigma,
    "median ratio 5 %": MedianRatio,
    "river ADWIN": Adwin,
    "river PageHinkley": PageHinkley,
    "river PageHinkley, set for 5 %": lambda: PageHinkley(
        delta=0.025, threshold=0.3, min_instances=30
    ),
    "ruptures PELT": Ruptures,
}


def alarms(make: Callable[[], Detector], values: Sequence[float]) -> list[int]:
    """The steps at which a detector begins to call the run slow."""
    detector, was_slow, found = make(), False, []
    for step, value in enumerate(values):
        detector.update(value)
        if detector.is_slow and not was_slow:
            found.append(step)
        was_slow = detector.is_slow
    return found
