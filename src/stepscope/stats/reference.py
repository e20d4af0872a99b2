"""What is usual: a bounded sample of a whole series, its middle and its noise."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from stepscope.stats.quantiles import median

__all__ = ["Evidence", "Reference"]

BLOCK = 8  # neighbours that are kept together: noise that lasts shows in their means
BLOCKS = 32
FEWEST = 24  # values before anything can be said
CLIP = 2.5  # standard deviations that a single value may count for
LEAST_VARIANCE = 0.01  # of clipped values, where the series is as good as constant
_NORMAL = 1.4826  # makes the median deviation of normal noise its standard deviation
_MEDIAN_ERROR = 1.2533  # of a median, against that of a mean


class Evidence(NamedTuple):
    """How much a value speaks for a level that is higher (lower) by delta: a log of likelihoods."""

    slower: float
    faster: float


class Reference:
    """Blocks of neighbours from all of a series, ever further apart as it grows.

    delta: the shift of the level that is looked for.
    """

    def __init__(self, delta: float) -> None:
        self._delta = delta
        self._blocks: list[list[float]] = []
        self._block: list[float] = []  # the one that is being filled
        self._stride = 1  # of so many blocks, one is kept
        self._seen = 0
        self._now: Sequence[float] = ()
        self._ordered: list[float] = []
        self.middle = 0.0
        self._scale = delta / CLIP
        self._variance = 1.0  # of clipped values, as it tells over several of them
        self._centre = 0.0  # of clipped values; not 0 where noise is skewed
        self._up = self._down = 0.0  # how far a shift by delta moves that

    @property
    def is_ready(self) -> bool:
        return len(self._ordered) >= FEWEST

    def update(self, value: float) -> None:
        self._block.append(value)
        if len(self._block) < BLOCK:
            return
        if self._seen % self._stride == 0:
            self._blocks.append(self._block)
            if len(self._blocks) > BLOCKS:
                self._blocks = self._blocks[::2]
                self._stride *= 2
            self._measure()
        self._seen += 1
        self._block = []

    def look_at_noise(self, now: Sequence[float]) -> None:
        """Where the last values (of one level, whichever) are noisier than the series was, theirs
        is the noise that counts."""
        self._now = now if len(now) >= FEWEST else ()
        if self.is_ready:
            self._measure()

    def evidence(self, value: float) -> Evidence:
        away = self._clipped(value) - self._centre
        return Evidence(
            self._up / self._variance * (away - self._up / 2),
            self._down / self._variance * (-away - self._down / 2),
        )

    def shift(self, values: Sequence[float]) -> float:
        """How much higher these values lie: the median of the distances between their quantiles
        and those of the series. Where every other value is long, that stands still; a plain median
        would not."""
        count, known = len(values), len(self._ordered)
        at = (int((place + 0.5) / count * known) for place in range(count))
        pairs = zip(sorted(values), at, strict=True)
        return median(value - self._ordered[place] for value, place in pairs) or 0.0

    def error(self, count: int) -> float:
        """How far the shift of so many values lies from the true one, usually."""
        if not self._up:
            return math.inf
        return _MEDIAN_ERROR * math.sqrt(self._variance / count) * self._delta / self._up

    def _clipped(self, value: float) -> float:
        return min(CLIP, max(-CLIP, (value - self.middle) / self._scale))

    def _measure(self) -> None:
        self._ordered = sorted(value for block in self._blocks for value in block)
        self.middle = median(self._ordered) or 0.0
        spreads = _spread(self._ordered, self.middle), _spread(self._now, median(self._now) or 0.0)
        # A scale below this would let steps count in full that are far from slow enough.
        self._scale = max(*spreads, self._delta / CLIP)
        clipped = [self._clipped(value) for value in self._ordered]
        self._centre = sum(clipped) / len(clipped)
        self._up = self._moved(self._delta)
        self._down = -self._moved(-self._delta)
        self._variance = self._lasting_variance(_variance(clipped)) * self._doubt()

    def _moved(self, shift: float) -> float:
        return (
            sum(self._clipped(value + shift) for value in self._ordered) / len(self._ordered)
            - self._centre
        )

    def _doubt(self) -> float:
        """What is usual is not known better than its values allow."""
        return 1.0 + 2 * BLOCK / len(self._ordered)

    def _lasting_variance(self, own: float) -> float:
        """Of sums of neighbours, for each of them: more than of single values, where a slow one is
        followed by slow ones."""
        means = [sum(map(self._clipped, block)) / BLOCK for block in self._blocks]
        own = max(own, LEAST_VARIANCE)
        lasting = max(own, BLOCK * _variance(means))
        if not self._now:
            return lasting
        middle = median(self._now) or 0.0
        now = _variance([self._clipped(value - middle + self.middle) for value in self._now])
        return lasting * max(1.0, now / own)


def _spread(values: Sequence[float], middle: float) -> float:
    return _NORMAL * (median(abs(value - middle) for value in values) or 0.0)


def _variance(values: Sequence[float]) -> float:
    middle = sum(values) / len(values)
    return sum((value - middle) ** 2 for value in values) / max(1, len(values) - 1)
