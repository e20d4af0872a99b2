"""A loss, value by value → whether it runs away, or is no number any more."""

from __future__ import annotations

import math
from collections import deque
from itertools import islice, pairwise

from stepscope.stats.quantiles import median

__all__ = ["DivergenceDetector"]

WINDOW = 16  # values whose median is the level
LASTS = 48  # values that a loss has to stay up there for: spikes recover sooner
FEWEST = 2 * WINDOW
NOISE = 8.0  # times the usual noise, that a level has to be above the best one
LOST = 0.5  # of all that was won since the beginning, that has to be lost again
BACK = 0.5  # of that distance: below it, it has recovered
_NORMAL = 1.4826  # makes the median deviation of normal noise its standard deviation


class DivergenceDetector:
    """Whether a loss is lost.

    Running away: the level (a median) stays far above the best it ever was, by many times its noise
    and by half of all the progress made, and does not come down from there. A spike that recovers,
    noise and a harder lesson whose loss falls again are none of it.

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
        self._raised_level = 0.0  # at which the level first was too high
        self._up_since: int | None = None
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
        self.level = self._median_of_last(WINDOW)
        if self._count % WINDOW == 0:
            self._measure_noise()
        if self.best is None:
            self.best = self._start = self.level
        self.best = min(self.best, self.level)
        self._judge(self.level - self.best)

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

    def _measure_noise(self) -> None:
        """Of neighbours, so that progress is no noise; the loudest for long, slowly forgotten."""
        steps = [abs(b - a) for a, b in pairwise(self._values)]
        now = _NORMAL * (median(steps) or 0.0) / math.sqrt(2.0)
        self._noise = max(now, 0.95 * self._noise) if not self._up_since else self._noise

    def _limit(self) -> float:
        best = self.best or 0.0
        return max(NOISE * self._noise, LOST * (self._start - best))

    def _judge(self, far: float) -> None:
        limit = self._limit()
        if self._count < FEWEST or far <= BACK * limit:
            self._up_since, self._runs_away = None, False
        elif far > limit and self._up_since is None:
            # The median passed the limit when half of its window had.
            self._up_since = max(0, self._count - WINDOW // 2)
            self._raised_level = self.level or 0.0
        elif self._up_since is not None and not self._runs_away:
            stays = self._count - self._up_since >= LASTS
            if stays and (self.level or 0.0) >= self._raised_level:
                self._runs_away = True
                if self.is_finite:
                    self.began = self._up_since
