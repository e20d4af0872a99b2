"""What is usual: a bounded sample of a whole series, its middle and its noise."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from stepscope.stats.quantiles import median

__all__ = ["Reference"]

BLOCK = 8  # neighbours that are kept together: noise that lasts shows in their means
BLOCKS = 32
FEWEST = 24  # values before anything can be said
CLIP = 2.5  # standard deviations that a single value may count for
TURNS = 0.25  # of the variance: where sums of neighbours have less, they cancel each other out
PERIOD = 4
LEAST_ALIKE, MOST_ALIKE = 0.2, 0.95  # a correlation of neighbours: below, it may be chance
LEAST_VARIANCE = 0.01  # of clipped values, where the series is as good as constant
_NORMAL = 1.4826  # makes the median deviation of normal noise its standard deviation
_MEDIAN_ERROR = 1.2533  # of a median, against that of a mean


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
        self._ordered: list[float] = []
        self.middle = 0.0
        self._scale = delta / CLIP
        self._least_scale = self._scale
        self._now_spread = 0.0
        self._own = 1.0  # variance of clipped values, one by one
        self._variance = 1.0  # the same, as it tells over several of them
        self._louder = 1.0  # the variance now, against that of all
        self.period = 1  # values that have to be taken together: long ones and short ones in turn
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
            self._forget_warm_up()
            self._measure()
        self._seen += 1
        self._block = []

    def look_at_noise(self, now: Sequence[float]) -> None:
        """Where the last values (of one level, whichever) are noisier than the series was, theirs
        is the noise that counts."""
        if not self.is_ready or len(now) < FEWEST:
            return
        middle = median(now) or 0.0
        self._now_spread = _spread(now, middle)
        if not 0.8 < max(self._least_scale, self._now_spread) / self._scale < 1.25:
            self._measure()
        clipped = _variance([self._clipped(value - middle + self.middle) for value in now])
        self._louder = max(1.0, clipped / self._own)

    def evidence(self, value: float) -> tuple[float, float]:
        """How much a value speaks for a level that is higher by delta, and for one that is lower:
        logarithms of how much likelier it is there."""
        away = self._clipped(value) - self._centre
        variance = self._variance * self._louder
        up, down = self._up, self._down
        return up / variance * (away - up / 2), down / variance * (-away - down / 2)

    def shift(self, values: Sequence[float]) -> float:
        """How much higher these values lie: the median of the distances between their quantiles
        and those of the series. Where every other value is long, that stands still; a plain median
        would not."""
        count, known = len(values), len(self._ordered)
        at = (int((place + 0.5) / count * known) for place in range(count))
        pairs = zip(sorted(values), at, strict=True)
        return median(value - self._ordered[place] for value, place in pairs) or 0.0

    def error(self, count: int) -> float:
        """How far the shift of so many values lies from what is usual by chance, noise that lasts
        included."""
        return self._error(self._variance, count)

    def own_error(self, count: int) -> float:
        """How far it lies from the level that these values have now."""
        return self._error(self._own, count)

    def _error(self, variance: float, count: int) -> float:
        if not self._up:
            return math.inf
        return _MEDIAN_ERROR * math.sqrt(variance * self._louder / count) * self._delta / self._up

    def _clipped(self, value: float) -> float:
        return min(CLIP, max(-CLIP, (value - self.middle) / self._scale))

    def _forget_warm_up(self) -> None:
        """A first block that is higher than all the others is no measure of them."""
        levels = [median(block) or 0.0 for block in self._blocks]
        while len(levels) > FEWEST // BLOCK and levels[0] > max(levels[1:]):
            del levels[0], self._blocks[0]

    def _measure(self) -> None:
        ordered = self._ordered = sorted(value for block in self._blocks for value in block)
        self.middle = median(ordered) or 0.0
        # A scale below delta / CLIP would let values count in full that are far from delta.
        self._least_scale = max(_spread(ordered, self.middle), self._delta / CLIP)
        self._scale = max(self._least_scale, self._now_spread)
        clipped = [self._clipped(value) for value in ordered]
        self._centre = sum(clipped) / len(clipped)
        self._up = self._moved(self._delta)
        self._down = -self._moved(-self._delta)
        self._own = max(_variance(clipped), LEAST_VARIANCE)
        # What is usual is not known better than its values allow.
        self._variance = self._lasting_variance() * (1.0 + 2 * BLOCK / len(ordered))

    def _moved(self, shift: float) -> float:
        return (
            sum(self._clipped(value + shift) for value in self._ordered) / len(self._ordered)
            - self._centre
        )

    def _lasting_variance(self) -> float:
        """Of sums of neighbours, for each of them: more than of single values, where a slow one is
        followed by slow ones, and less, where by a fast one."""
        blocks = [[self._clipped(value) for value in block] for block in self._blocks]
        lasting = BLOCK * _variance([sum(block) / BLOCK for block in blocks])
        takes_turns = lasting < TURNS * self._own and len(blocks) >= BLOCKS // 2
        self.period = PERIOD if takes_turns else 1
        if takes_turns:
            return max(lasting, LEAST_VARIANCE)
        return max(lasting, self._own * self._follow_up(blocks))

    def _follow_up(self, blocks: Sequence[Sequence[float]]) -> float:
        """How many times its own variance a value counts for, if those behind it are like it as the
        next one is: blocks are too short to show noise that lasts longer than they do."""
        products = [
            (a - self._centre) * (b - self._centre) for block in blocks for a, b in pairwise(block)
        ]
        alike = min(MOST_ALIKE, sum(products) / len(products) / self._own)
        return (1.0 + alike) / (1.0 - alike) if alike > LEAST_ALIKE else 1.0


def _spread(values: Sequence[float], middle: float) -> float:
    return _NORMAL * (median(abs(value - middle) for value in values) or 0.0)


def _variance(values: Sequence[float]) -> float:
    middle = sum(values) / len(values)
    return sum((value - middle) ** 2 for value in values) / max(1, len(values) - 1)
