"""A loss, value by value → whether it runs away, or is no number any more."""

from __future__ import annotations

import math
from collections import deque
from itertools import islice, pairwise

from stepscope.stats.quantiles import median, quantile

__all__ = ["DivergenceDetector"]

WINDOW = 16  # values whose median is the level
LASTS = 48  # values that a loss has to stay up there for: spikes recover sooner
FEWEST = 2 * WINDOW
NOISE = 8.0  # times the usual noise, that a level has to be above the best one
LOST = 0.5  # of all that was won since the beginning, that has to be lost again
WANDERS = 3.0  # times what the level usually rises by within LASTS values
SURVIVED = 1.25  # times the highest that it came back from
BACK = 0.5  # of that distance: below it, it has recovered
CERTAIN = 4.0  # times the distance asked for: then there is nothing to wait for
FALLING = 0.1  # of the distance: a level that has come down by more is on its way back
RISES = 32  # that are remembered
_NORMAL = 1.4826  # makes the median deviation of normal noise its standard deviation


class DivergenceDetector:
    """Whether a loss is lost.

    Running away: the level (a median) stays far above the best it ever was, by many times its noise
    and its usual ups and downs and by half of all the progress made, and does not come down from
    there. A spike that recovers and a harder lesson whose loss falls again are none of it.

    >>> detector = DivergenceDetector()
    >>> for step in range(300):
    ...     detector.update(2.0 / (1 + step / 50) + (0.0 if step < 200 else 0.1 * (step - 200)))
    >>> detector.is_diverging, detector.is_finite, 200 <= detector.began <= 220
    (True, True, True)
    >>> detector.update(float("nan"))
    >>> detector.is_diverging, detector.is_finite
    (True, False)
    """

    def __init__(self) -> None:
        self._values: deque[float] = deque(maxlen=LASTS)
        self._count = 0
        self._finite_in_a_row = WINDOW
        self._noise = 0.0
        self._start = 0.0
        self._rises: deque[float] = deque(maxlen=RISES)
        self._usual_rise = 0.0  # a large one
        self._level_before = 0.0  # LASTS values ago
        self._survived = 0.0
        self._highest = 0.0  # above the best, since it was last near it
        self._up_since: int | None = None
        self._watch_began = 0  # and the highest level since
        self._watch_peak = 0.0
        self._runs_away = False
        self.best: float | None = None  # the lowest level
        self.level: float | None = None
        self.began = 0  # number of updates before the one at which it began

    def update(self, value: float) -> None:
        self._count += 1
        if not math.isfinite(value):
            self._lose()
            return
        self._finite_in_a_row += 1
        self._values.append(value)
        if len(self._values) < WINDOW:
            return
        level = self.level = self._median_of_last(WINDOW)
        if self.best is None:
            self.best = self._start = self._level_before = level
        self._measure(level)
        self.best = min(self.best, level)
        if self._count >= FEWEST:
            self._judge(level, level - self.best)

    @property
    def is_diverging(self) -> bool:
        return self._runs_away or not self.is_finite

    @property
    def is_finite(self) -> bool:
        """Whether the last values were numbers; one that was none counts for a while."""
        return self._finite_in_a_row >= WINDOW

    @property
    def confidence(self) -> float:
        """1 for what is no number; else how far the level has left behind what is asked for it to
        be running away: 0.5 where it is just that far."""
        if not self.is_finite:
            return 1.0
        if self.level is None or self.best is None:
            return 0.0
        far = max(0.0, self.level - self.best)
        limit = self._limit()
        return far / (far + limit) if limit else float(far > 0.0)

    def _lose(self) -> None:
        if not self.is_diverging:
            self.began = self._count - 1
        self._finite_in_a_row = 0

    def _median_of_last(self, count: int) -> float:
        start = max(0, len(self._values) - count)
        return median(islice(self._values, start, None)) or 0.0

    def _measure(self, level: float) -> None:
        """What ups and downs are usual, as long as it does not run away. Noise is taken from
        neighbours, so that progress is none; the loudest is forgotten slowly."""
        if self._up_since is not None:
            return
        if self._count % WINDOW == 0:
            now = _NORMAL * (median(abs(b - a) for a, b in pairwise(self._values)) or 0.0)
            self._noise = max(now / math.sqrt(2.0), 0.95 * self._noise)
        if self._count % LASTS == 0:
            self._rises.append(max(0.0, level - self._level_before))
            self._level_before = level
            self._usual_rise = quantile(self._rises, 0.9) or 0.0

    def _limit(self) -> float:
        return max(
            NOISE * self._noise,
            LOST * (self._start - (self.best or 0.0)),
            WANDERS * self._usual_rise,
            SURVIVED * self._survived,
        )

    def _judge(self, level: float, far: float) -> None:
        limit = self._limit()
        self._highest = max(self._highest, far)
        if far <= BACK * limit:
            self._survived = max(self._survived, self._highest)
            self._highest = 0.0
            self._up_since, self._runs_away = None, False
        elif self._up_since is None:
            if far > limit:
                # The median passed the limit when half of its window had.
                self._up_since = max(0, self._count - WINDOW // 2)
                self._watch(level)
        elif not self._runs_away:
            self._wait(level, far)

    def _watch(self, level: float) -> None:
        self._watch_began, self._watch_peak = self._count, level

    def _wait(self, level: float, far: float) -> None:
        self._watch_peak = max(self._watch_peak, level)
        is_certain = far > CERTAIN * self._limit()
        if self._count - self._watch_began < LASTS and not is_certain:
            return
        if level < self._watch_peak - max(self._noise, FALLING * far):
            self._watch(level)
            return
        self._runs_away = True
        if self.is_finite:
            self.began = self._up_since or 0
